"""Metrics that other programs compute, such as COMET: tab-separated lines in, one score per line out."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.evaluate.corpus_statistics import bootstrap_interval
from regard.evaluate.metrics import MetricScore
from regard.text.clean import clean

_NAME_AND_COMMAND = re.compile(r"(?:([\w.+-]+)=)?(.*)", re.DOTALL)


@dataclass(frozen=True)
class ExternalMetric:
    """A command that reads `source TAB hypothesis TAB reference` per line and prints one score per line."""

    name: str
    command: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "ExternalMetric":
        """Parse `NAME=COMMAND` or `COMMAND`, whose name is that of the program. No shell is involved."""
        name, command = _NAME_AND_COMMAND.fullmatch(text).groups()  # type: ignore[union-attr]
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UserError(f"--metric-command {text}: not a command ({error})") from None
        if not words:
            raise UserError(f"--metric-command '{text}': give a command, or NAME=COMMAND")
        if shutil.which(words[0]) is None:
            raise UserError(f"--metric-command {words[0]}: there is no such program; give its path")
        return cls(name or PurePath(words[0]).name, tuple(words))

    def score(self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> MetricScore:
        """Return the mean of the scores that the command prints, with its confidence interval."""
        scores = self.sentence_scores(sources, hypotheses, references)
        n = len(scores)
        interval = bootstrap_interval(scores[:, None], lambda sums: float(sums[0]) / n)
        return MetricScore(float(scores.mean()), shlex.join(self.command), interval)

    def sentence_scores(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
    ) -> NDArray[np.float64]:
        """Run the command and return its score of each sentence."""
        rows = zip(sources, hypotheses, references, strict=True)
        lines = "".join("\t".join(map(clean, row)) + "\n" for row in rows)  # no tab or line break is left in a text
        try:
            done = subprocess.run(self.command, input=lines.encode(), capture_output=True)
        except OSError as error:
            raise self._error(f"cannot be started ({error.strerror})") from None
        if done.returncode:
            raise self._error(f"failed with exit code {done.returncode}: {_last_line(done.stderr)}")
        printed = done.stdout.decode("utf-8", "replace").split("\n")
        printed = printed[: -1 if printed[-1] == "" else None]
        if len(printed) != len(sources):
            counts = f"printed {len(printed):,} lines for {len(sources):,} sentences"
            raise self._error(f"{counts}; it must print one score per line: {_last_line(done.stderr)}")
        return np.array([self._parse_score(line, number) for number, line in enumerate(printed, start=1)])

    def _parse_score(self, line: str, number: int) -> float:
        try:
            score = float(line)
        except ValueError:
            score = np.nan
        if not np.isfinite(score):
            raise self._error(f"line {number:,} of its output is '{line[:40].strip()}', not a number")
        return score

    def _error(self, problem: str) -> UserError:
        return UserError(f"--metric-command {self.name}: {problem}")


def parse_metrics(texts: Sequence[str]) -> list[ExternalMetric]:
    """Parse several commands, whose names must differ."""
    metrics = [ExternalMetric.parse(text) for text in texts]
    names = [metric.name for metric in metrics]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"--metric-command: two metrics are called {twice}; write NAME=COMMAND")
    return metrics


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing to standard error"
