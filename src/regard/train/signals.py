"""Ctrl-C and SIGTERM as a request to save and leave."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """The run was asked to leave, and has saved."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped at step {step}")
        self.signal_number = signal_number
        self.step = step


class StopRequested(Exception):
    """Long work was broken off to leave."""


class StopRequest:
    """Set by a signal; a second signal interrupts at once."""

    signal_number: int | None = None

    def check(self) -> None:
        if self:
            raise StopRequested

    def __bool__(self) -> bool:
        return self.signal_number is not None


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
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
