"""A corpus of sentence pairs with other random segmentations in each epoch, as in BPE-dropout.

The texts of an epoch are segmented before its batches are planned, so that texts of similar lengths are batched
together: planned by their usual lengths, more than a third of the tokens of a batch would be padding.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np

from regard.data.pair_store import PairStore
from regard.text.ragged import Ragged

Resample = Callable[[Ragged, int], Ragged]
"""(sequences of ids, seed) → the same texts in another random segmentation"""

_BLOCK = 1024  # pairs resampled at a time; results depend on it
_MAX_TOKENS = 1 << 25  # of a corpus whose epochs are held in memory, which then takes about 300 MB
_EPOCHS = 2  # held in memory: the current one, and the next one, which is prepared meanwhile


@dataclass(frozen=True)
class ResampledPairs:
    """The pairs of a store with segmentations that are a function of (seed, epoch)."""

    store: PairStore
    resample: tuple[Resample, Resample]
    """For source and target"""
    seed: int
    _epochs: dict[int, PairStore] = field(default_factory=dict, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @property
    def fits(self) -> bool:
        """Whether whole epochs are held in memory."""
        return len(self.store.src_ids) + len(self.store.tgt_ids) <= _MAX_TOKENS

    def epoch(self, epoch: int) -> PairStore:
        """Return the pairs of an epoch, from memory if it is one of the most recent."""
        if (known := self._epochs.get(epoch)) is not None:
            return known
        with self._lock:
            if epoch not in self._epochs:
                made = self._make(epoch)
                for old in list(self._epochs)[: 1 - _EPOCHS]:
                    del self._epochs[old]
                self._epochs[epoch] = made
            return self._epochs[epoch]

    def sample(self, src: Ragged, tgt: Ragged, *numbers: int) -> tuple[Ragged, Ragged]:
        """Return other segmentations of pairs, which are a function of the seed and these numbers."""
        seeds = np.random.SeedSequence([self.seed, *numbers]).generate_state(2).tolist()
        return self.resample[0](src, seeds[0]), self.resample[1](tgt, seeds[1])

    def _make(self, epoch: int) -> PairStore:
        blocks = [
            self.sample(self.store.src(rows), self.store.tgt(rows), epoch, i)
            for i, rows in enumerate(np.split(np.arange(len(self.store)), range(_BLOCK, len(self.store), _BLOCK)))
        ]
        src, tgt = ([block[side] for block in blocks] for side in (0, 1))
        return replace(
            self.store,
            src_ids=np.concatenate([part.ids for part in src]),
            src_ends=_ends(src),
            tgt_ids=np.concatenate([part.ids for part in tgt]),
            tgt_ends=_ends(tgt),
        )


def _ends(parts: list[Ragged]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))])
