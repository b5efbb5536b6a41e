"""Ctrl-C and SIGTERM as a request to save and stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """A signal stopped the run after it saved a checkpoint."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped at step {step}")
        self.signal_number = signal_number
        self.step = step


class StopRequested(Exception):
    """Raised within long computations, such as a validation, to stop them."""


class StopRequest:
    """True after a signal has arrived."""

    signal_number: int | None = None

    def check(self) -> None:
        """Raise StopRequested after a signal has arrived."""
        if self:
            raise StopRequested

    def __bool__(self) -> bool:
        return self.signal_number is not None


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Record SIGINT and SIGTERM instead of stopping at once; a second signal raises KeyboardInterrupt."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request:
            raise KeyboardInterrupt
        request.signal_number = number

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
