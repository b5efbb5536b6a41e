"""How far a long reading of data is: a function that readers call now and then."""

from collections.abc import Callable

ReadingProgress = Callable[[str, int], None]
"""Called with what is being done and how many pairs are done"""


def no_progress(activity: str, n_pairs: int) -> None:
    """Show nothing."""
