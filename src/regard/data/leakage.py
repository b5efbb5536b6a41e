"""Test or validation data that also occur in the training data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.pair_table import PairTable
from regard.data.parallel_corpus import ParsedCorpus


@dataclass(frozen=True)
class Leakage:
    """How many pairs of a held-out corpus occur in the training data."""

    total: int
    """Pairs of the held-out corpus"""
    sources: int
    """Pairs whose source is the source of a training pair"""
    pairs: int
    """Pairs that are a training pair"""
    lines: tuple[int, ...]
    """The first lines of the held-out corpus whose source occurs in the training data"""

    @property
    def share(self) -> float:
        return self.sources / self.total if self.total else 0.0

    def describe(self, name: str) -> str:
        """Return one line; empty without leakage."""
        if not self.sources:
            return ""
        return (
            f"{self.sources:,} of {self.total:,} sources ({100 * self.share:.1f} %) of the {name} also occur in the "
            f"training data, {self.pairs:,} with the same target (first at line {self.lines[0]:,}); "
            "scores on them say little about new text"
        )


def find_leakage(held_out: ParsedCorpus, train: ParsedCorpus, n_lines: int = 1) -> Leakage:
    """Return what the corpora have in common, with the first `n_lines` lines of the held-out one."""
    return _compare(held_out.table, train.table, held_out.lines, n_lines)


def find_leakage_within(corpus: ParsedCorpus, held_out: NDArray[np.int64], train: NDArray[np.int64]) -> Leakage:
    """Return what rows of a corpus that are held out have in common with those that are trained on."""
    lines = [corpus.lines[row] for row in held_out.tolist()]
    return _compare(corpus.table.select(held_out), corpus.table.select(train), lines, 1)


def _compare(held_out: PairTable, train: PairTable, lines: Sequence[int], n_lines: int) -> Leakage:
    sources, pairs = np.isin(held_out.sources, train.sources), np.isin(held_out.pairs, train.pairs)
    first = tuple(lines[row] for row in np.flatnonzero(sources)[:n_lines].tolist())
    return Leakage(len(held_out), int(sources.sum()), int(pairs.sum()), first)
