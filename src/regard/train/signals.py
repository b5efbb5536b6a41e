"""Ctrl-C, SIGTERM and SIGHUP as a request to save and stop."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from regard.train.ranks import speaks

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_PATIENCE = 3
"""Ctrl-C ends the process without saving when it is pressed for this time"""


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
    interrupts = 0
    """How many times Ctrl-C was pressed"""

    def check(self) -> None:
        """Raise StopRequested after a signal has arrived."""
        if self:
            raise StopRequested

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = self.signal_number or number
        self.interrupts += number == signal.SIGINT
        if self.interrupts >= _PATIENCE:
            raise KeyboardInterrupt
        if self.interrupts == _PATIENCE - 1:
            _write("still at it; Ctrl-C once more ends at once and loses the updates since the last checkpoint")
        elif self.interrupts < 2:
            _write("stopping after this update and saving a checkpoint")

    def __bool__(self) -> bool:
        return self.signal_number is not None


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Record SIGINT, SIGTERM and SIGHUP and say so instead of stopping at once.

    Only Ctrl-C pressed three times raises KeyboardInterrupt. A signal repeated after the run has saved and stopped
    does not kill the process, which is about to exit. Under nohup, which ignores SIGHUP, it stays ignored. In a thread
    other than the main one, signals cannot be handled and are left alone.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    under_nohup = hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [number for number in _SIGNALS if not (under_nohup and number == signal.SIGHUP)]
    before = {number: signal.signal(number, request.handle) for number in handled}
    try:
        yield request
    except Stopped:
        usual = (signal.SIG_DFL, signal.default_int_handler)
        before |= {number: signal.SIG_IGN for number, handler in before.items() if handler in usual}
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def restore_signals() -> None:
    """Let signals act as usual after a run that a signal stopped, in a process that goes on."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _write(line: str) -> None:
    """Write a line to stderr from a signal handler, where buffered files must not be used; the terminal may be gone."""
    if speaks():
        with suppress(OSError):
            os.write(2, f"\nregard: {line}\n".encode())
