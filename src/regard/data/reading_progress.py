"""How far a long reading of data is: a function that readers call now and then."""

from typing import Protocol


class ReadingProgress(Protocol):
    def __call__(self, activity: str, n_done: int, total: int | None = None) -> None:
        """Show what is being done and how much is done, of how many if that is known."""


def no_progress(activity: str, n_done: int, total: int | None = None) -> None:
    """Show nothing."""
