"""The log of a run: a progress bar or plain lines on stderr, metrics.jsonl, and TensorBoard if it is on."""

import io
import json
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from regard.errors import UserError
from regard.files import disk_error, write_atomically
from regard.manifest import read_regular

_SILENCE = 10.0  # seconds after which a line says what the run is doing


class RunLog:
    """Writes messages to stderr and metrics to metrics.jsonl.

    While it is open, a thread prints a line at least every ten seconds, however long an update takes.
    """

    def __init__(self, folder: Path, tensorboard: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        file = sys.stderr or io.StringIO()
        # In a notebook too, lines are text on stderr: each would become an HTML output of its own.
        self.console = Console(file=file, force_jupyter=False, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._board = _tensorboard(folder) if tensorboard else None
        self._activity: tuple[str, float] | None = None
        self._last_line = time.monotonic()
        self._closed = threading.Event()

    def __enter__(self) -> "RunLog":
        threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        if self._board:
            self._board.close()

    def info(self, line: str) -> None:
        """Print a line to stderr, unless nobody can read it any more."""
        self._last_line = time.monotonic()
        with suppress(OSError):
            self.console.print(line, markup=False)

    def doing(self, activity: str) -> None:
        """Note what the run is doing from now on; it is printed if it takes long."""
        self._activity = (activity, time.monotonic())

    def _break_silence(self) -> None:
        while not self._closed.wait(0.5):
            if self._activity and self._bar is None and time.monotonic() - self._last_line >= _SILENCE:
                activity, start = self._activity
                self.info(f"{activity}: {duration(time.monotonic() - start)} so far")

    def record(self, step: int, **values: Any) -> None:
        """Append a line to metrics.jsonl, with null for numbers that are not finite, and add TensorBoard scalars."""
        values = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **values}, ensure_ascii=False) + "\n")
        except OSError as error:
            raise disk_error(error, self.path) from error
        if self._board:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)

    def rewind(self, step: int, validated: int) -> None:
        """Delete the metrics after `step`, and validations after step `validated`: a resumed run records them again."""
        if self.path.exists():
            rows = [
                row for row in read_metrics(self.path) if row["step"] <= (validated if "valid_loss" in row else step)
            ]
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            write_atomically(self.path, lines.encode())

    @contextmanager
    def progress(self, done: int, total: int, seconds: float | None = None) -> Iterator[None]:
        """Show a progress bar while the block runs, if stderr is a terminal."""
        self._started, self._first = time.monotonic(), done
        limit = f"{total:,} updates" + (f" or {duration(seconds)}" if seconds is not None else "")
        self.info(f"training: at most {limit}, starting with update {done + 1:,}")
        if not self.console.is_terminal:
            yield
            return
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=self.console, transient=True) as self._bar:
            self._task = self._bar.add_task("", total=total, completed=done)
            yield
        self._bar = None

    def update(self, step: int, total: int, values: dict[str, float]) -> None:
        """Record the training metrics since the last call and show them on the bar, or as a line with the time left."""
        self.record(step, **values)
        text = f"loss {values['loss']:.3f}  lr {values['lr']:.2e}  {values['tokens_per_second']:,.0f} target tokens/s"
        now = time.monotonic()
        seconds_left = (now - self._started) / max(1, step - self._first) * (total - step)
        if step == self._first + 1:  # the first update is slower than the others: do not count it again
            self._started, self._first = now, step
        if self._bar:
            self._bar.update(self._task, completed=step, total=total, description=text)
        else:
            self.info(f"step {step:,}/{total:,}  {text}  {duration(seconds_left)} left")
        self._last_line = now


class SilentLog(RunLog):
    """The log of a rank that is not the first: it prints nothing and writes nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.console = Console(file=io.StringIO(), force_jupyter=False)

    def info(self, line: str) -> None:
        pass

    def record(self, step: int, **values: Any) -> None:
        pass

    def rewind(self, step: int, validated: int) -> None:
        pass


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics.jsonl; a line that was cut off by a crash or is damaged is left out."""
    rows = []
    for line in read_regular(path).decode(errors="replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("train.tensorboard needs a package: pip install 'regard[log]'") from None
    return SummaryWriter(str(folder / "tensorboard"))


def duration(seconds: float) -> str:
    """`90 s`, `50 min`, `30 h` or `3 days`"""
    for size, unit, limit in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        if seconds < size * limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
