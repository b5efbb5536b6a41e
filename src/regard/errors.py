"""The exception for mistakes of the user."""


class UserError(ValueError):
    """Invalid input that the user can correct.

    The message is one line that says what is wrong and what to do; the command line prints it and exits with 2.
    """
