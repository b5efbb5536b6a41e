"""Facts about the pairs of a corpus in arrays, for rules that look at all pairs at once."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.side_labels import SideLabels

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits that look random: sources and targets get different hashes


@dataclass(frozen=True)
class PairTable:
    """Arrays with one row per pair and one column per side."""

    hashes: NDArray[np.int64]
    """Of the texts [n, 2]; they differ from process to process. Equal texts have equal hashes, and of ten million
    pairs two different ones have equal hashes with a probability of 3 in a million."""
    lengths: NDArray[np.int32]
    """Of the texts in characters [n, 2]"""
    scripts: SideLabels | None = None
    """Of most letters of the texts; None: not looked at"""
    languages: SideLabels | None = None
    """Of the texts; None: not looked at"""

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def pairs(self) -> NDArray[np.uint64]:
        """One hash per pair [n]"""
        sources, targets = self.hashes.view(np.uint64).T
        return (sources ^ (sources >> np.uint64(29))) * _MIX + targets

    @property
    def sources(self) -> NDArray[np.int64]:
        """One hash per source [n]"""
        return self.hashes[:, 0]

    @classmethod
    def joined(cls, tables: Sequence["PairTable"]) -> "PairTable":
        """Return the hashes and lengths of several tables as one."""
        return cls(np.concatenate([t.hashes for t in tables]), np.concatenate([t.lengths for t in tables]))

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "PairTable":
        """Return the table of some of the pairs."""
        labels = [column and column.select(rows) for column in (self.scripts, self.languages)]
        return PairTable(self.hashes[rows], self.lengths[rows], *labels)


class PairTableBuilder:
    """Collects the hashes and lengths of texts while they are read, in 24 bytes per pair."""

    def __init__(self) -> None:
        self._hashes, self._lengths = array("q"), array("i")

    def extend(self, texts: Sequence[str]) -> None:
        """Add pairs: source, target, source, target …"""
        self._hashes.extend(map(hash, texts))
        self._lengths.extend(map(len, texts))

    def table(self) -> PairTable:
        hashes, lengths = np.asarray(self._hashes, np.int64), np.asarray(self._lengths, np.int32)
        return PairTable(hashes.reshape(-1, 2), lengths.reshape(-1, 2))
