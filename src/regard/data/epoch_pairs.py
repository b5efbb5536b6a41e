"""The pairs of one epoch: which rows of a store it has, with changed texts and with other segmentations.

With BPE-dropout or unigram sampling, the texts of an epoch are segmented before its batches are planned, so that texts
of similar lengths are batched together: planned by their usual lengths, more than a third of the tokens of a batch
would be padding.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from regard.data.modified_pairs import PairModifier, Pairs
from regard.data.pair_store import IdPairs
from regard.data.row_windows import Rows, n_windows, shuffled_blocks, window_limits
from regard.text.ragged import Ragged

Resample = Callable[[Ragged, int], Ragged]
"""(sequences of ids, seed) → the same texts in another random segmentation"""

_BLOCK = 1024  # pairs resampled at a time; results depend on it
_MAX_TOKENS = 1 << 25  # of an epoch that is segmented as a whole in memory, which then takes about 300 MB
_WINDOWS = 2  # held in memory: the current one, and the next one, which is prepared meanwhile
_STREAM = 3  # distinguishes these random numbers from others of the same seed


class RowOrder(Protocol):
    """Says which rows of a store each epoch has."""

    @property
    def fingerprint(self) -> str:
        """Hash of the options that it follows"""

    def n_windows(self, epoch: int) -> int:
        """Return the number of windows of an epoch."""

    def __call__(self, epoch: int, window: int = 0) -> NDArray[np.int64]:
        """Return the rows of a window of an epoch in increasing order; a row that is seen twice occurs twice."""


@dataclass(frozen=True)
class AllRows:
    """All rows in every epoch"""

    rows: Rows
    seed: int
    fingerprint: str = ""

    def n_windows(self, epoch: int) -> int:
        return n_windows(len(self.rows))

    def __call__(self, epoch: int, window: int = 0) -> NDArray[np.int64]:
        n = len(self.rows)
        if self.n_windows(epoch) == 1:
            return self.rows[np.arange(n)]
        bits = np.random.Philox(np.random.SeedSequence([self.seed, _STREAM, epoch]))
        return self.rows[shuffled_blocks(n, *window_limits(n, window), bits)]


@dataclass(frozen=True)
class Epoch:
    """The pairs of one epoch, or of a window of it."""

    pairs: Pairs
    rows: NDArray[np.int64]
    """Rows of `pairs` that are seen in this epoch"""
    store_rows: NDArray[np.int64] | None = None
    """The row of the store for each row of `pairs`; None: the same"""
    is_segmented: bool = True
    """Whether the texts have the segmentation of this epoch; if not, each batch draws it"""


@dataclass(frozen=True)
class EpochPairs:
    """Makes the pairs of each epoch, as a function of (seed, epoch)."""

    store: Pairs
    order: RowOrder
    seed: int
    modify: PairModifier | None = None
    resample: tuple[Resample, Resample] | None = None
    """For source and target"""
    _windows: dict[tuple[int, int], Epoch] = field(default_factory=dict, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __call__(self, epoch: int, window: int = 0) -> Epoch:
        """Return the pairs of a window of an epoch, from memory if it is one of the most recent."""
        key = (epoch, window)
        if (known := self._windows.get(key)) is not None:
            return known
        with self._lock:
            if key not in self._windows:
                made = self._make(epoch, window)
                for old in list(self._windows)[: 1 - _WINDOWS]:
                    del self._windows[old]
                self._windows[key] = made
            return self._windows[key]

    @property
    def keeps_lengths(self) -> bool:
        """Whether the pairs of large epochs are as long as in the store"""
        return self.modify is None

    def sample(self, src: Ragged, tgt: Ragged, *numbers: int) -> tuple[Ragged, Ragged]:
        """Return other segmentations of pairs, which are a function of the seed and these numbers."""
        assert self.resample
        seeds = np.random.SeedSequence([self.seed, *numbers]).generate_state(2).tolist()
        return self.resample[0](src, seeds[0]), self.resample[1](tgt, seeds[1])

    def _make(self, epoch: int, window: int) -> Epoch:
        pairs: Pairs = self.store
        rows = self.order(epoch, window)
        if self.modify:
            pairs, rows = self.modify(self.store, rows, epoch, window)
        if not self.resample:
            return Epoch(pairs, rows)
        if self.order.n_windows(epoch) > 1 or sum(int(side.sum()) for side in pairs.lengths(rows)) > _MAX_TOKENS:
            return Epoch(pairs, rows, is_segmented=False)
        return Epoch(self._segmented(pairs, rows, epoch), np.arange(len(rows)), store_rows=rows)

    def _segmented(self, pairs: Pairs, rows: NDArray[np.int64], epoch: int) -> IdPairs:
        """Return the rows with the segmentations of this epoch."""
        blocks = [
            self.sample(pairs.src(block), pairs.tgt(block), epoch, i)
            for i, block in enumerate(np.split(rows, range(_BLOCK, len(rows), _BLOCK)))
        ]
        src, tgt = ([block[side] for block in blocks] for side in (0, 1))
        return IdPairs(*_concatenate(src), *_concatenate(tgt))


def _concatenate(parts: list[Ragged]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids of all sequences, and where each ends."""
    lengths = np.concatenate([part.lengths for part in parts])
    return np.concatenate([part.ids for part in parts]), np.concatenate([[0], np.cumsum(lengths)])
