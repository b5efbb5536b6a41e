"""Rules that say which pairs of a corpus are better left out. Training, `data inspect` and `data clean` share them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.config import Config
from regard.data.pair_table import PairTable
from regard.data.side_labels import SideLabels

_FEWEST_PAIRS = 20
"""Fewer pairs than this have no usual length ratio"""
_SHORT = 20
"""Characters; a shorter text may have any length ratio, and may be its own translation"""


class FilterConfig(Config):
    """Which pairs training leaves out. Validation and test data are never filtered."""

    drop_duplicates: bool = True
    """Leave out pairs with the same source and the same target as an earlier pair."""
    drop_extreme_ratios: bool = True
    """Leave out pairs whose length ratio differs from the usual one of the corpus by more than a factor of five."""

    @property
    def rules(self) -> "tuple[PairRule, ...]":
        return (*([DUPLICATE] if self.drop_duplicates else []), *([RATIO] if self.drop_extreme_ratios else []))


class PairRule(Protocol):
    """A reason to leave pairs out."""

    @property
    def name(self) -> str:
        """As an option and in removed.tsv"""
        ...

    @property
    def problem(self) -> str:
        """In reports"""
        ...

    def __call__(self, table: PairTable) -> NDArray[np.bool_]:
        """Return which pairs to leave out [n]."""
        ...


@dataclass(frozen=True)
class DuplicateRule:
    """The same source and the same target as an earlier pair."""

    name: ClassVar[str] = "duplicate"
    problem: ClassVar[str] = "duplicate of an earlier pair"

    def __call__(self, table: PairTable) -> NDArray[np.bool_]:
        pairs = table.pairs
        ordered = np.sort(pairs)
        if not (ordered[1:] == ordered[:-1]).any():  # ten times faster than finding out where they are
            return np.zeros(len(table), dtype=np.bool_)
        repeated = np.ones(len(table), dtype=np.bool_)
        repeated[np.unique(pairs, return_index=True)[1]] = False
        return repeated


@dataclass(frozen=True)
class RatioRule:
    """Lengths that differ from the usual ratio by more than `factor`, and by at least 20 characters.

    The usual ratio is the median of the corpus: Japanese text has fewer characters than English text. In Multi30k
    and Tanaka no true pair exceeds a factor of 3.3.
    """

    name: ClassVar[str] = "ratio"
    problem: ClassVar[str] = "extreme length ratio"
    factor: float = 5.0

    def __call__(self, table: PairTable) -> NDArray[np.bool_]:
        return self.of_counts(table.lengths, np.ones(len(table), dtype=np.int64))

    def of_counts(self, lengths: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which pairs of lengths [n, 2] to leave out; each occurs `counts` times in the corpus [n]."""
        if counts.sum() < _FEWEST_PAIRS:
            return np.zeros(len(lengths), dtype=np.bool_)
        half = _median(lengths[:, 1] / lengths[:, 0], counts) ** 0.5
        src, tgt = lengths[:, 0] * half, lengths[:, 1] / half  # as if the usual ratio were 1
        shorter, longer = np.minimum(src, tgt), np.maximum(src, tgt)
        return (longer > self.factor * shorter) & (longer - shorter >= _SHORT)


@dataclass(frozen=True)
class IdenticalRule:
    """The same text on both sides, of at least 20 characters: names and numbers may be their own translation."""

    name: ClassVar[str] = "identical"
    problem: ClassVar[str] = "identical sides"

    def __call__(self, table: PairTable) -> NDArray[np.bool_]:
        return (table.hashes[:, 0] == table.hashes[:, 1]) & (table.lengths[:, 0] >= _SHORT)


@dataclass(frozen=True)
class LabelRule:
    """A side whose script or language, as far as it is certain, is not the usual one of this side."""

    name: str
    problem: str
    column: Literal["scripts", "languages"]

    def __call__(self, table: PairTable) -> NDArray[np.bool_]:
        labels: SideLabels | None = getattr(table, self.column)
        return labels.unusual() if labels else np.zeros(len(table), dtype=np.bool_)


DUPLICATE, RATIO = DuplicateRule(), RatioRule()
SCRIPT = LabelRule("script", "wrong script", "scripts")
LANGUAGE = LabelRule("language", "wrong language", "languages")
RULES: dict[str, PairRule] = {rule.name: rule for rule in (DUPLICATE, IdenticalRule(), RATIO, SCRIPT, LANGUAGE)}
"""All rules by name, in the order in which they are applied"""


def usual_ratio(table: PairTable) -> float:
    """Return the median of target length / source length, in characters; 1 without pairs."""
    return float(np.median(table.lengths[:, 1] / table.lengths[:, 0])) if len(table) else 1.0


def _median(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    """Return the median of values that occur so often."""
    order = np.argsort(values)
    ends = np.cumsum(counts[order])
    middle = (ends[-1] - 1) // 2, ends[-1] // 2  # the same for an odd number
    return float(np.mean(values[order[np.searchsorted(ends, middle, side="right")]]))


def apply_rules(table: PairTable, rules: Sequence[PairRule]) -> NDArray[np.int64]:
    """Return the index of the first rule that applies to each pair [n]; −1: the pair is kept.

    What is usual may change when pairs are left out, so the rules are applied until they find nothing more.
    """
    reasons = np.full(len(table), -1)
    rows = np.arange(len(table))
    while True:
        rest = table.select(rows)
        for index, rule in enumerate(rules):
            applies = rows[rule(rest)]
            reasons[applies[reasons[applies] < 0]] = index
        kept = rows[reasons[rows] < 0]
        if len(kept) == len(rows):
            return reasons
        rows = kept
