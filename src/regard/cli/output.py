"""What verbs print and where they write."""

import io
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

import typer

from regard.errors import UserError
from regard.paths import check_output_file, check_writable

CLOSED_PIPE = 128 + signal.SIGPIPE
"""The exit code when the reader of standard output has left"""
_BETWEEN_UPDATES = 0.1  # seconds, on a terminal
_BETWEEN_LINES = 30.0  # seconds, elsewhere
_FIRST_ESTIMATE = 2.0  # seconds after which the time left is estimated


def print_line(line: str) -> None:
    """Print a line in UTF-8, whatever the locale, and flush it."""
    print_text(f"{line}\n")


def print_text(text: str) -> None:
    """Print text without a newline in UTF-8, whatever the locale, and flush it.

    Ends the command if that fails: quietly when the reader has left, as in `regard … | head`, else with an error.
    """
    try:
        sys.stdout.buffer.write(text.encode(errors="replace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        discard_output(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(CLOSED_PIPE) from None
        raise UserError(f"standard output: cannot be written ({error.strerror})") from None


def print_report(text: str, paths: Sequence[Path]) -> None:
    """Print a report, an empty line, and the files that were written."""
    print_line("\n".join([text, "", *map(str, paths)]))


def print_warning(line: str) -> None:
    """Print a line to standard error."""
    print(f"regard: {line}", file=sys.stderr, flush=True)


def warn_about_long_texts(n_texts: int, n_tokens: int) -> None:
    """Warn that of `n_texts` texts, if there are any, only the beginning was read."""
    if n_texts:
        print_warning(f"{n_texts:,} texts are longer than {n_tokens:,} tokens; only their beginning was read")


def discard_output(stream: TextIO) -> None:
    """Send what is still buffered in a stream nowhere: Python would complain that it cannot be written on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def prepare_streams() -> None:
    """Make the standard streams safe to use, whatever they were redirected to.

    Closed ones (`>&-` in a shell) are opened: otherwise another file would get their numbers, and what libraries print
    would be written into it. Writing to a standard output that was closed fails. Writing to standard error never does:
    a long training run must not end because nobody reads its progress any more.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
            os.set_inheritable(opened, True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    if sys.stderr is None or sys.stderr is sys.__stderr__:  # else it was replaced in Python, as by a test
        file = io.BufferedWriter(_UnfailingFile(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(file, errors="backslashreplace", line_buffering=True)


class _UnfailingFile(io.FileIO):
    """A file that drops what cannot be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))


def check_out_file(out: Path | None, suffixes: Sequence[str]) -> None:
    """Reject an --out of another format, or one that cannot be written."""
    if out and (out.suffix not in suffixes or not out.parent.is_dir()):
        raise UserError(f"--out {out}: give a file ending in {', '.join(suffixes)}, in a folder that exists")
    if out:
        check_output_file(out, "--out")


def make_out_folder(out: Path) -> None:
    """Create the folder of --out if there is none."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot create this folder ({error.strerror}); choose another") from None
    check_writable(out, "--out")


@contextmanager
def continue_by_same_command() -> Iterator[None]:
    """After a signal that stopped a job, end the command with a line that says how to continue."""
    from regard.train.signals import Stopped

    try:
        with _terminated_as_exception():
            yield
    except Stopped as stopped:
        print_warning("stopped and saved; give the same command again to continue")
        raise typer.Exit(128 + stopped.signal_number) from None
    except KeyboardInterrupt as stop:
        print_warning("stopped; give the same command again to continue")
        raise typer.Exit(128 + (signal.SIGTERM if isinstance(stop, _Terminated) else signal.SIGINT)) from None


class _Terminated(KeyboardInterrupt):
    """SIGTERM has arrived."""


@contextmanager
def _terminated_as_exception() -> Iterator[None]:
    """Let SIGTERM raise an exception, as Ctrl-C does, so that a job ends its workers."""

    def stop(number: int, frame: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class ProgressLine:
    """A line on standard error, if that is a terminal, that says how far a long job is. It disappears in the end.

    With `log`, a line is printed every half minute where standard error is no terminal.
    """

    def __init__(self, unit: str = "pairs", visible: bool = True, log: bool = False) -> None:
        self._unit = unit
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._between = _BETWEEN_UPDATES if self._is_terminal else _BETWEEN_LINES
        self._visible = visible and (self._is_terminal or log)
        self._shown = time.monotonic() - (self._between if self._is_terminal else 0.0)
        self._width = 0
        self._estimate = _Estimate("", None, 0, 0.0)
        self._n_done = 0

    def __call__(self, activity: str, n_done: int, total: int | None = None) -> None:
        """Show what is being done, how much is done and, of a known total, when it will be."""
        if not self._visible:
            return
        now = time.monotonic()
        begins = (self._estimate.activity, self._estimate.total) != (activity, total) or self._n_done == total
        if begins:
            self._estimate = _Estimate(activity, total, n_done, now)
        elif total:  # several workers may report less than before
            n_done = max(n_done, self._n_done)
        self._n_done = n_done
        if now - self._shown >= self._between:
            self._shown = now
            of_total = f"of {total:,} " if total else ""
            left = self._estimate.time_left(n_done, now)
            self._write(f"{activity}: {n_done:,} {of_total}{self._unit}{left}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        if not self._is_terminal:
            print_warning(text)
            return
        print(f"\r{text.ljust(self._width)}", end="" if text else "\r", file=sys.stderr, flush=True)
        self._width = len(text)


@dataclass(frozen=True)
class _Estimate:
    """When an activity began, and how much was done then."""

    activity: str
    total: int | None
    first: int
    began: float

    def time_left(self, n_done: int, now: float) -> str:
        """Return `, 3 min left`; nothing at the beginning, when nobody can know."""
        from regard.train.log import duration

        if not self.total or n_done <= self.first or now - self.began < _FIRST_ESTIMATE:
            return ""
        return f", {duration((now - self.began) / (n_done - self.first) * (self.total - n_done))} left"
