"""Training batches: an endless stream in which each batch is a function of (seed, epoch, position).

`Batches` is the stream for any kind of data. `PairBatches` holds sentence pairs: all batches have about the same
number of padded tokens, and pairs of similar lengths are batched together, so that there is little padding and few
shapes occur.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.batch import Batch, collate, padded_length, padded_lengths
from regard.data.epoch_pairs import AllRows, EpochPairs, Resample, RowOrder
from regard.data.modified_pairs import PairModifier
from regard.data.pair_store import PairStore
from regard.data.word_alignments import AlignmentGuide
from regard.text.ragged import Ragged


class BatchConfig(Config):
    tokens: int = Field(4096, ge=1, le=2**31)
    """Padded tokens per batch and side."""
    max_tokens: int = Field(255, ge=1, le=1_000_000)
    """Pairs with a longer side are left out and reported."""
    context: int = Field(256, ge=2, le=1_000_000)
    """Plain text: tokens per block, which is the context of a language model."""
    workers: int = Field(2, ge=0, le=256)
    """Threads that prepare batches in advance; the order of batches does not depend on it."""


Collate = Callable[[Ragged, Ragged, int | None], Batch]


class StreamPosition(NamedTuple):
    """A position in the endless stream of batches."""

    epoch: int
    batch: int


class Batches(ABC):
    """An endless stream of training batches, epoch after epoch, that can be started at any position."""

    config: BatchConfig
    _plans: dict[int, list[NDArray[np.int64]]]
    """The plan of the most recent epoch"""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the data; a resumed run must have the same."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of training examples: pairs, blocks or captions"""

    @abstractmethod
    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the content of each batch of an epoch as an array that `_collate` understands."""

    @abstractmethod
    def _collate(self, rows: NDArray[np.int64], epoch: int, index: int) -> Batch:
        """Make the batch for one entry of the plan; called from several threads at once."""

    def plan(self, epoch: int) -> list[NDArray[np.int64]]:
        order = self._plans.get(epoch)
        if order is None:
            order = self._plan(epoch)
            self._plans.clear()  # one epoch at a time is enough
            self._plans[epoch] = order
        return order

    def batch(self, epoch: int, index: int) -> Batch:
        return self._collate(self.plan(epoch)[index], epoch, index)

    def stream(self, start: StreamPosition) -> Generator[tuple[StreamPosition, Batch], None, None]:
        """Yield every batch from `start` on with the position that follows it, without end."""
        if self.config.workers == 0:
            plans = map(self.plan, count(start.epoch))
            yield from ((after, self._collate(*work)) for after, work in _schedule(start, plans))
            return
        with ThreadPoolExecutor(self.config.workers) as pool:
            pending: deque[tuple[StreamPosition, Future[Batch]]] = deque()
            try:
                for after, work in _schedule(start, self._plans_ahead(start.epoch, pool)):
                    pending.append((after, pool.submit(self._collate, *work)))
                    if len(pending) > 4 * self.config.workers:
                        position, future = pending.popleft()
                        yield position, future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _plans_ahead(self, epoch: int, pool: Executor) -> Iterator[list[NDArray[np.int64]]]:
        """Yield the plans from an epoch on; the next one is always made in advance."""
        plan = pool.submit(self.plan, epoch)
        for following in count(epoch + 1):
            order = plan.result()
            plan = pool.submit(self.plan, following)
            yield order


def _schedule(
    start: StreamPosition, plans: Iterable[list[NDArray[np.int64]]]
) -> Iterator[tuple[StreamPosition, tuple[NDArray[np.int64], int, int]]]:
    """Yield the position after each batch and the arguments of `_collate` for it."""
    epoch, index = start
    for order in plans:
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
    """Training batches over the sentence pairs `rows` of a store."""

    store: PairStore
    resample: tuple[Resample, Resample] | None = None
    """Draw other segmentations of source and target in each epoch, as in BPE-dropout"""
    collate: Collate = collate
    guide: AlignmentGuide | None = None
    """Adds the attention that guided alignment teaches"""
    order: RowOrder | None = None
    """Which of the rows each epoch has; None: all"""
    modify: PairModifier | None = None
    """Changes some texts in each epoch"""

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint + "".join(part.fingerprint for part in (self.guide, self.order) if part)

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the rows in each batch, of the pairs of this epoch."""
        made = self._epochs(epoch)
        src, tgt = made.pairs.lengths()
        lengths = (src[made.rows] + 1, tgt[made.rows] + 1)
        order = plan(lengths, self.config.tokens, np.random.Philox(key=[self.seed, epoch]))
        return [made.rows[batch] for batch in order]

    @cached_property
    def _epochs(self) -> EpochPairs:
        return EpochPairs(self.store, self.order or AllRows(self.rows), self.seed, self.modify, self.resample)

    def _texts(self, rows: NDArray[np.int64], epoch: int, index: int) -> tuple[Ragged, Ragged]:
        """Return the sources and targets of a batch, segmented for this epoch."""
        made = self._epochs(epoch)
        src, tgt = made.pairs.src(rows), made.pairs.tgt(rows)
        return (src, tgt) if made.is_segmented else self._epochs.sample(src, tgt, epoch, index)

    def _collate(self, rows: NDArray[np.int64], epoch: int, index: int) -> Batch:
        src, tgt = self._texts(rows, epoch, index)
        width = padded_length(int(max(src.lengths.max(), tgt.lengths.max())) + 1)
        batch = self.collate(src, tgt, max(len(rows), rows_for(width, self.config.tokens)))
        if self.guide is None:
            return batch
        store_rows = self._epochs(epoch).store_rows
        shape = (batch.size, batch.tgt_out.shape[1], batch.src.shape[1])
        return replace(batch, links=self.guide(rows if store_rows is None else store_rows[rows], src, tgt, shape))


def plan(
    lengths: tuple[NDArray[np.int64], NDArray[np.int64]], budget: int, bits: np.random.BitGenerator
) -> list[NDArray[np.int64]]:
    """Divide all pairs into batches of at most `budget` padded tokens per side, in random order.

    Pairs are shuffled, then sorted (stably) by padded shape, first by the longer side, and cut in that order. Pairs
    that do not fill a batch join those of the next greater length, so that only the very last batch is not full.
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
    """Return the number of sentences of this width per batch: as many as fit the budget, a multiple of 8 from 8 on."""
    rows = max(1, budget // width)
    return rows if rows < 8 else rows // 8 * 8
