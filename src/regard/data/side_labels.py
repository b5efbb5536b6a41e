"""A label for each side of each pair, such as its script or its language."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_spool import Texts

_USUAL_SHARE = 0.8
"""Share of the labelled texts that a label must have to be the usual one"""
_BLOCK = 256


@dataclass(frozen=True)
class SideLabels:
    """Labels as numbers, and the names of these numbers."""

    ids: NDArray[np.uint8]
    """[n, 2]; 0: not certain, or not looked at"""
    names: tuple[str, ...]
    """Of the ids; the first one is empty"""

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "SideLabels":
        return SideLabels(self.ids[rows], self.names)

    def shares(self, side: int) -> list[tuple[str, float]]:
        """Return the labels of a side and their shares, the most frequent first."""
        counts = np.bincount(self.ids[:, side], minlength=len(self.names))
        counts[0] = 0
        order = np.argsort(-counts, kind="stable")
        return [(self.names[i], float(counts[i] / counts.sum())) for i in order.tolist() if counts[i]]

    def is_mixed(self, side: int) -> bool:
        """Return whether a side has labels of which none is the usual one."""
        return bool(shares := self.shares(side)) and shares[0][1] < _USUAL_SHARE

    def unusual(self) -> NDArray[np.bool_]:
        """Return which pairs have a side with another label than the usual one [n]; none if no label is usual."""
        result = np.zeros(len(self.ids), dtype=np.bool_)
        for side in (0, 1):
            if (shares := self.shares(side)) and not self.is_mixed(side):
                ids = self.ids[:, side]
                result |= (ids != 0) & (ids != self.names.index(shares[0][0]))
        return result


def label_sides(
    texts: Texts,
    label: Callable[[str], str],
    activity: str,
    progress: ReadingProgress = no_progress,
    every: int = 1,
) -> SideLabels:
    """Return the labels of texts (source, target, source, target …); of every n-th pair only, if told so."""
    numbers: dict[str, int] = {"": 0}
    ids = array("B", bytes(len(texts)))
    for row, text in _texts_of_every(texts, every):
        ids[row] = numbers.setdefault(label(text), min(len(numbers), 255))
        if row % (_BLOCK * every) == 0:
            progress(activity, row // 2, len(texts) // 2)
    return SideLabels(np.asarray(ids, np.uint8).reshape(-1, 2), tuple(islice(numbers, 256)))


def _texts_of_every(texts: Texts, every: int) -> Iterator[tuple[int, str]]:
    if every == 1:
        yield from enumerate(texts)
        return
    for row in range(0, len(texts), 2 * every):
        yield row, texts[row]
        yield row + 1, texts[row + 1]
