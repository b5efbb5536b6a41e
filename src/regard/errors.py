"""The user's mistake, as one line that says what to change."""


class UserError(ValueError):
    """Raised for input that the user can mend; the command line prints its message alone and exits with 2."""
