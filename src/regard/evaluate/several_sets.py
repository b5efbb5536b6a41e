"""Evaluations of several test sets, such as one per language pair, and their mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.evaluate.translation import Evaluation


@dataclass(frozen=True)
class SeveralEvaluations:
    """The evaluations of several test sets by their names."""

    by_name: Mapping[str, Evaluation]

    def mean(self) -> dict[str, float]:
        """Return the mean of each metric over the test sets, each of which counts the same."""
        rows = [_values(evaluation) for evaluation in self.by_name.values()]
        return {metric: sum(row[metric] for row in rows) / len(rows) for metric in rows[0]}

    def to_json(self) -> dict[str, Any]:
        tests = {name: evaluation.to_json() for name, evaluation in self.by_name.items()}
        return {"tests": tests, "mean": self.mean()}

    def to_text(self) -> str:
        mean = self.mean()
        width = max(map(len, ("test set", *self.by_name)))
        rows = [f"{'test set':{width}}{'sentences':>11}" + "".join(f"{metric:>12}" for metric in mean)]
        for name, evaluation in self.by_name.items():
            rows.append(f"{name:{width}}{len(evaluation.hypotheses):11,}" + _numbers(_values(evaluation)))
        rows.append(f"{'mean':{width}}{'':11}" + _numbers(mean))
        first = next(iter(self.by_name.values()))
        rows += ["", *(f"{name}: {score.signature}" for name, score in (first.scores | first.external).items())]
        return "\n".join(rows)


def _values(evaluation: Evaluation) -> dict[str, float]:
    return {name: score.score for name, score in (evaluation.scores | evaluation.external).items()}


def _numbers(values: Mapping[str, float]) -> str:
    return "".join(f"{value:12.2f}" for value in values.values())
