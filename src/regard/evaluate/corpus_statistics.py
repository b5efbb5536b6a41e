"""What a metric counts in each sentence: scores of any sentences, and confidence intervals by bootstrap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

N_SAMPLES = 1000
_SEED = 12345  # of sacreBLEU, so that intervals equal those of `sacrebleu --confidence`

Interval = tuple[float, float]
"""The lower and the upper end of a 95 % confidence interval"""


@dataclass(frozen=True)
class CorpusStatistics:
    """The sufficient statistics of a sacreBLEU metric: the score of some sentences depends on their sums only."""

    metric: Any
    counts: NDArray[np.float64]
    """[sentences, statistics]"""

    @classmethod
    def of(cls, metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> "CorpusStatistics":
        """Compare each text with its reference."""
        return cls(metric, np.asarray(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64))

    def score(self, rows: Sequence[int] | None = None) -> float:
        """Return the score of the sentences `rows`, or of all."""
        return self._score_of_sums((self.counts if rows is None else self.counts[rows]).sum(0))

    def sentence_scores(self) -> NDArray[np.float64]:
        """Return the score of each sentence by itself."""
        return np.array([self._score_of_sums(row) for row in self.counts])

    def interval(self) -> Interval:
        """Return the 95 % confidence interval of the score of all sentences."""
        return bootstrap_interval(self.counts, self._score_of_sums)

    @property
    def signature(self) -> str:
        return str(self.metric.get_signature().format())

    def _score_of_sums(self, sums: NDArray[np.float64]) -> float:
        return float(self.metric._compute_score_from_stats(sums).score)


def bootstrap_interval(counts: NDArray[np.float64], score: Callable[[NDArray[np.float64]], float]) -> Interval:
    """Return the 95 % interval of score(sums of the counts [sentences, statistics]) when sentences are drawn again.

    The samples are those of sacreBLEU, which draws all at once; one by one they need little memory.
    """
    n, generator = len(counts), np.random.default_rng(_SEED)
    draws = (np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(N_SAMPLES))
    scores = sorted(score(drawn @ counts) for drawn in draws)
    outside = N_SAMPLES // 40
    return scores[outside], scores[-outside - 1]
