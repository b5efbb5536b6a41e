"""Which rows form which batch: a pure function of (seed, epoch, position).

`Batches` is the endless stream, whatever the rows are. Of pairs, batches hold about the same number of padded
tokens; pairs of like lengths stand together, so that little of it is padding and few shapes occur.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.batch import Batch, Ragged, collate, padded_length, padded_lengths
from regard.data.pair_store import PairStore
from regard.data.word_alignments import AlignmentGuide


class BatchConfig(Config):
    tokens: int = Field(4096, ge=1)
    """Padded tokens a batch, of each side."""
    max_tokens: int = Field(255, ge=1)
    """Pairs with a longer side are left out, and reported."""
    context: int = Field(256, ge=2)
    """Plain text: tokens of a block, which is what a language model sees at once."""
    workers: int = Field(2, ge=0)
    """Threads that prepare batches ahead; the order does not depend on it."""


Resample = Callable[[Sequence[Sequence[int]], int], list[list[int]]]
Collate = Callable[[Ragged, Ragged, int | None], Batch]


class StreamPosition(NamedTuple):
    """A place in the endless stream of batches."""

    epoch: int
    batch: int


class Batches(ABC):
    """An endless stream of training batches, epoch after epoch, that can be entered anywhere."""

    config: BatchConfig
    _plans: dict[int, list[NDArray[np.int64]]]
    """The plan of the epoch that was asked for last"""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Of the data; a resumed run must find the same."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many pairs, blocks or rows there are to train on."""

    @abstractmethod
    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """What each of the epoch's batches is made of, as numbers that `_collate` understands."""

    @abstractmethod
    def _collate(self, rows: NDArray[np.int64], epoch: int, index: int) -> Batch:
        """One entry of the plan → its batch; called from several threads at once."""

    def plan(self, epoch: int) -> list[NDArray[np.int64]]:
        if epoch not in self._plans:
            order = self._plan(epoch)
            self._plans.clear()  # one epoch at a time is enough
            self._plans[epoch] = order
        return self._plans[epoch]

    def batch(self, epoch: int, index: int) -> Batch:
        return self._collate(self.plan(epoch)[index], epoch, index)

    def stream(self, start: StreamPosition) -> Iterator[tuple[StreamPosition, Batch]]:
        """Every batch from `start` on, epoch after epoch, each with the position that follows it."""
        if self.config.workers == 0:
            yield from ((after, self._collate(*work)) for after, work in self._schedule(start))
            return
        with ThreadPoolExecutor(self.config.workers) as pool:
            ahead: deque[tuple[StreamPosition, Future[Batch]]] = deque()
            try:
                for after, work in self._schedule(start):
                    ahead.append((after, pool.submit(self._collate, *work)))
                    if len(ahead) > 4 * self.config.workers:
                        position, future = ahead.popleft()
                        yield position, future.result()
            finally:
                for _, future in ahead:
                    future.cancel()

    def _schedule(self, start: StreamPosition) -> Iterator[tuple[StreamPosition, tuple[NDArray[np.int64], int, int]]]:
        epoch, index = start
        while True:
            order = self.plan(epoch)
            while index < len(order):
                after = StreamPosition(epoch, index + 1) if index + 1 < len(order) else StreamPosition(epoch + 1, 0)
                yield after, (order[index], epoch, index)
                index += 1
            epoch, index = epoch + 1, 0


class Store(Protocol):
    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class RowBatches(Batches):
    """Batches over the rows `rows` of a store."""

    store: Store
    rows: NDArray[np.int64]
    config: BatchConfig
    seed: int
    _plans: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict, repr=False, kw_only=True)

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint

    @property
    def size(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class PairBatches(RowBatches):
    """The stream of training batches over the pairs `rows` of a store."""

    store: PairStore
    resample: tuple[Resample, Resample] | None = None
    """Draws other segmentations of the source and of the target side, if there is any"""
    collate: Collate = collate
    guide: AlignmentGuide | None = None
    """Says where target tokens should look, if there is any"""

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint + (self.guide.fingerprint if self.guide else "")

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """The epoch's batches as row numbers of the store."""
        src, tgt = self.store.lengths()
        lengths = (src[self.rows] + 1, tgt[self.rows] + 1)
        order = plan(lengths, self.config.tokens, np.random.Philox(key=[self.seed, epoch]))
        return [self.rows[batch] for batch in order]

    def _collate(self, rows: NDArray[np.int64], epoch: int, index: int) -> Batch:
        src, tgt = self.store.src(rows), self.store.tgt(rows)
        if self.resample:
            seeds = np.random.SeedSequence([self.seed, epoch, index]).generate_state(2).tolist()
            src = Ragged.of(self.resample[0](src.lists(), seeds[0]))
            tgt = Ragged.of(self.resample[1](tgt.lists(), seeds[1]))
        width = padded_length(int(max(src.lengths.max(), tgt.lengths.max())) + 1)
        batch = self.collate(src, tgt, max(len(rows), rows_for(width, self.config.tokens)))
        if self.guide is None:
            return batch
        shape = (batch.size, batch.tgt_out.shape[1], batch.src.shape[1])
        return replace(batch, links=self.guide(rows, src, tgt, shape))


def plan(
    lengths: tuple[NDArray[np.int64], NDArray[np.int64]], budget: int, bits: np.random.BitGenerator
) -> list[NDArray[np.int64]]:
    """Cut all pairs into batches of at most `budget` padded tokens a side, in random order.

    Pairs are shuffled, then sorted (stably) by their padded shape, longer side first, and cut in that order.
    What is left of one length goes with the next longer; only the very last batch is not full.
    """
    generator = np.random.Generator(bits)
    src, tgt = (padded_lengths(side) for side in lengths)
    width = np.maximum(src, tgt)
    shuffled = generator.permutation(len(width))
    order = shuffled[np.lexsort((tgt[shuffled], src[shuffled], width[shuffled]))]
    batches = []
    waiting = order[:0]
    for level in np.unique(width):
        waiting = np.concatenate([waiting, order[width[order] == level]])
        rows = rows_for(int(level), budget)
        full = len(waiting) // rows * rows
        batches += np.split(waiting[:full], range(rows, full, rows)) if full else []
        waiting = waiting[full:]
    if len(waiting):
        batches.append(waiting)
    return [batches[i] for i in generator.permutation(len(batches))]


def rows_for(width: int, budget: int) -> int:
    """Sentences a batch: as many of this width as the budget holds, in whole eights where there are eight."""
    rows = max(1, budget // width)
    return rows if rows < 8 else rows // 8 * 8
