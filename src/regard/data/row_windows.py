"""Windows of a large epoch, which are shuffled and planned one after the other.

A permutation of 100 million rows takes 800 MB, and so do the sort keys of a plan. So an epoch of more than two million
rows is divided into windows: the corpus is cut into blocks of consecutive rows, the blocks are shuffled, and each
window has the rows of some of them. Smaller epochs are one window.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WINDOW = 1 << 21  # rows planned together; the order of larger epochs depends on it
BLOCK = 1 << 10  # consecutive rows that stay in one window; the order of larger epochs depends on it


@dataclass(frozen=True)
class RowsExcept:
    """The rows start … stop − 1 without some, in increasing order; like an array of them, but without the memory."""

    start: int
    stop: int
    left_out: NDArray[np.int64]
    """In increasing order"""

    @classmethod
    def nothing(cls, n: int) -> "RowsExcept":
        """Return all rows of a store of n."""
        return cls(0, n, np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return self.stop - self.start - len(self.left_out)

    def __getitem__(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        before = self.left_out - self.start - np.arange(len(self.left_out))  # rows that precede each one left out
        return self.start + index + np.searchsorted(before, index, side="right")

    def between(self, start: int, stop: int) -> "RowsExcept":
        """Return those of the rows that are start … stop − 1."""
        inside = (self.left_out >= start) & (self.left_out < stop)
        return RowsExcept(start, stop, self.left_out[inside])

    def all(self) -> NDArray[np.int64]:
        """Return the rows as an array."""
        return self[np.arange(len(self))]


Rows = NDArray[np.int64] | RowsExcept
"""Rows of a store in increasing order"""


def n_windows(n: int) -> int:
    """Return the number of windows of an epoch of n rows."""
    return max(1, -(-n // WINDOW))


def window_limits(n: int, window: int) -> tuple[int, int]:
    """Return the first position of a window of n positions, and the one after its last; all are about equally large."""
    windows = n_windows(n)
    return n * window // windows, n * (window + 1) // windows


def shuffled_blocks(n: int, low: int, high: int, bits: np.random.BitGenerator) -> NDArray[np.int64]:
    """Return what is at positions low … high − 1 when 0 … n − 1 are shuffled in blocks, in increasing order."""
    order = np.random.Generator(bits).permutation(-(-n // BLOCK))
    sizes = np.full(len(order), BLOCK)
    sizes[order == len(order) - 1] = n - (len(order) - 1) * BLOCK  # the last block may be smaller
    ends = np.cumsum(sizes)
    first, last = np.searchsorted(ends, low, side="right"), np.searchsorted(ends, high, side="left") + 1
    begin = np.maximum(low - (ends - sizes)[first:last], 0)  # of the positions of each block
    stop = np.minimum(high - (ends - sizes)[first:last], sizes[first:last])
    chosen = np.argsort(order[first:last])
    starts, counts = (order[first:last] * BLOCK + begin)[chosen], (stop - begin)[chosen]
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
