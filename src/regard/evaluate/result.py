"""The result of an evaluation on one test file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.corpus_report import CorpusReport


@dataclass(frozen=True)
class TestResult:
    """Named values in the order in which they are shown."""

    __test__ = False  # not a pytest class

    values: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return dict(self.values)

    def to_text(self) -> str:
        rows = [f"{name:24}{value:12,.4f}" for name, value in self.values.items()]
        return "\n".join([*rows, *self.notes])


def describe_problems(report: CorpusReport) -> tuple[str, ...]:
    """Return one line per kind of problem in the test file, or nothing if there was none."""
    return tuple(report.describe("test data")) if report.problems else ()
