"""Correlation of two quantities, such as a model's confidence and the quality of its translations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """How closely two quantities go together, from −1 to 1; None if one of them is constant."""

    pearson: float | None
    """Linear correlation"""
    spearman: float | None
    """Linear correlation of the ranks: 1 if the larger one is, the larger is the other"""

    @classmethod
    def of(cls, x: Values, y: Values) -> "Correlation":
        """Correlate x[i] with y[i]."""
        return cls(_pearson(x, y), _pearson(_ranks(x), _ranks(y)))

    def to_text(self) -> str:
        values = {"Pearson": self.pearson, "Spearman": self.spearman}
        return "  ".join(f"{name} {'undefined' if r is None else f'{r:.3f}'}" for name, r in values.items())


def _pearson(x: Values, y: Values) -> float | None:
    """r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)"""
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale else None


def _ranks(x: Values) -> Values:
    """Return the rank of each value; equal values share the mean of their ranks."""
    _, group, counts = np.unique(x, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(mean_rank[group], dtype=np.float64)
