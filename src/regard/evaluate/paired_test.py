"""Paired significance tests: does a system differ from a baseline by more than chance?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sacrebleu.significance import PairedTest

from regard.errors import UserError
from regard.evaluate.metrics import ScoreOptions

PairedTestName = Literal["bootstrap", "randomisation"]

_SETTINGS: dict[PairedTestName, dict[str, Any]] = {
    "bootstrap": {"test_type": "bs", "n_samples": 1_000},  # Koehn 2004, as `sacrebleu --paired-bs`
    "randomisation": {"test_type": "ar", "n_samples": 10_000},  # Riezler & Maxwell 2005, as `sacrebleu --paired-ar`
}


def check_test_name(name: str) -> PairedTestName:
    """Return the name of a test after a check that there is such a test."""
    for known in _SETTINGS:
        if name == known:
            return known
    raise UserError(f"--paired {name}: choose one of {', '.join(_SETTINGS)}")


@dataclass(frozen=True)
class PairedResult:
    """One metric of the baseline and of the system, with the p-value of their difference."""

    metric: str
    baseline: float
    system: float
    p_value: float


def paired_test(
    name: PairedTestName,
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    options: ScoreOptions,
) -> list[PairedResult]:
    """Run paired bootstrap resampling or paired approximate randomisation on all metrics."""
    systems: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    results: dict[str, Any] = PairedTest(systems, options.metrics(), [list(references)], **_SETTINGS[name])()[1]
    return [
        # For two equal scores sacreBLEU counts 0 better samples and would report the difference as significant.
        PairedResult(metric, base.score, ours.score, 1.0 if base.score == ours.score else ours.p_value)
        for metric, (base, ours) in results.items()
        if metric != "System"
    ]
