"""The log of a run: a progress bar or plain lines on stderr, metrics.jsonl, and TensorBoard if it is on."""

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from regard.errors import UserError
from regard.files import write_atomically


class RunLog:
    """Writes messages to stderr and metrics to metrics.jsonl."""

    def __init__(self, folder: Path, tensorboard: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._board = _tensorboard(folder) if tensorboard else None
        self._started = time.monotonic()

    def info(self, line: str) -> None:
        """Print a line to stderr."""
        self.console.print(line, markup=False)

    def record(self, step: int, **values: Any) -> None:
        """Append a line to metrics.jsonl, with null for numbers that are not finite, and add TensorBoard scalars."""
        values = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}, ensure_ascii=False) + "\n")
        if self._board:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)

    def rewind(self, step: int) -> None:
        """Delete the metrics after `step`, because a resumed run records them again."""
        if self.path.is_file():
            rows = [row for row in read_metrics(self.path) if row["step"] <= step]
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            write_atomically(self.path, lines.encode())

    @contextmanager
    def progress(self, done: int, total: int) -> Iterator[None]:
        """Show a progress bar while the block runs, if stderr is a terminal."""
        self._started, self._first = time.monotonic(), done
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
        if self._bar:
            self._bar.update(self._task, completed=step, total=total, description=text)
        else:
            rate = (time.monotonic() - self._started) / max(1, step - self._first)
            self.info(f"step {step:,}/{total:,}  {text}  {_minutes(rate * (total - step))} left")

    def close(self) -> None:
        if self._board:
            self._board.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics.jsonl; a line that was cut off by a crash is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("train.tensorboard needs a package: pip install 'regard[log]'") from None
    return SummaryWriter(str(folder / "tensorboard"))


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
