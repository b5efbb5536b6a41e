"""Training batches: an endless stream in which each batch is a function of (seed, epoch, position).

`Batches` is the stream for any kind of data. `PairBatches` holds sentence pairs: all batches have about the same
number of padded tokens, and pairs of similar lengths are batched together, so that there is little padding and few
shapes occur.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.batch import Batch, collate, padded_length, padded_lengths
from regard.data.epoch_pairs import AllRows, EpochPairs, Resample, RowOrder
from regard.data.modified_pairs import PairModifier, Pairs
from regard.data.row_windows import Rows
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


Plan = list[NDArray[np.int64]]
"""The content of each batch, as an array that `_collate` understands"""


class Batches(ABC):
    """An endless stream of training batches, epoch after epoch, that can be started at any position.

    Large epochs are planned in windows, one after the other; all others are one window.
    """

    config: BatchConfig
    _plans: dict[tuple[int, int], Plan]
    """The plan of the most recent window"""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the data; a resumed run must have the same."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of training examples: pairs, blocks or captions"""

    @abstractmethod
    def _plan(self, epoch: int, window: int) -> Plan:
        """Return the batches of a window of an epoch."""

    @abstractmethod
    def _collate(self, rows: NDArray[np.int64], place: "Place") -> Batch:
        """Make the batch for one entry of the plan; called from several threads at once."""

    def n_windows(self, epoch: int) -> int:
        """Return the number of windows of an epoch."""
        return 1

    def window(self, epoch: int, window: int) -> Plan:
        """Return the batches of a window of an epoch, from memory if it is the most recent one."""
        order = self._plans.get((epoch, window))
        if order is None:
            order = self._plan(epoch, window)
            self._plans.clear()  # one at a time is enough
            self._plans[epoch, window] = order
        return order

    def plan(self, epoch: int) -> Plan:
        """Return all batches of an epoch, also of one that does not fit into memory: for tests and small corpora."""
        return [rows for window in range(self.n_windows(epoch)) for rows in self.window(epoch, window)]

    def batch(self, epoch: int, index: int) -> Batch:
        """Return a batch by its position in an epoch."""
        window, first = self._find_window(StreamPosition(epoch, index))
        return self._collate(self.window(epoch, window)[index - first], Place(epoch, window, index))

    def stream(self, start: StreamPosition) -> Generator[tuple[StreamPosition, Batch], None, None]:
        """Yield every batch from `start` on with the position that follows it, without end."""
        if self.config.workers == 0:
            yield from ((after, self._collate(*work)) for after, work in self._schedule(start, None))
            return
        with ThreadPoolExecutor(self.config.workers) as pool:
            pending: deque[tuple[StreamPosition, Future[Batch]]] = deque()
            try:
                for after, work in self._schedule(start, pool):
                    pending.append((after, pool.submit(self._collate, *work)))
                    if len(pending) > 4 * self.config.workers:
                        position, future = pending.popleft()
                        yield position, future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _schedule(
        self, start: StreamPosition, pool: Executor | None
    ) -> Iterator[tuple[StreamPosition, tuple[NDArray[np.int64], "Place"]]]:
        """Yield the position after each batch and the arguments of `_collate` for it."""
        number, first = self._find_window(start)
        skipped = start.batch - first
        for epoch, window, plan in self._planned(start.epoch, number, pool):
            is_last = window + 1 == self.n_windows(epoch)
            for i in range(skipped, len(plan)):
                after = StreamPosition(epoch, first + i + 1)
                if is_last and i + 1 == len(plan):
                    after = StreamPosition(epoch + 1, 0)
                yield after, (plan[i], Place(epoch, window, first + i))
            first, skipped = 0 if is_last else first + len(plan), 0

    def _planned(self, epoch: int, window: int, pool: Executor | None) -> Iterator[tuple[int, int, Plan]]:
        """Yield the plans of all windows from one on, without end; with a pool, the next one is made in advance."""
        ahead: Future[Plan] | None = None
        while True:
            plan = self.window(epoch, window) if ahead is None else ahead.result()
            after = (epoch, window + 1) if window + 1 < self.n_windows(epoch) else (epoch + 1, 0)
            ahead = pool.submit(self.window, *after) if pool else None
            yield epoch, window, plan
            epoch, window = after

    def _find_window(self, position: StreamPosition) -> tuple[int, int]:
        """Return the window with a position of an epoch, and the position of its first batch."""
        first, last = 0, self.n_windows(position.epoch) - 1
        for window in range(last):
            n = self._count(position.epoch, window)
            if position.batch < first + n:
                return window, first
            first += n
        return last, first

    def _count(self, epoch: int, window: int) -> int:
        """Return the number of batches of a window."""
        return len(self.window(epoch, window))


class Place(NamedTuple):
    """Where a batch is in the stream."""

    epoch: int
    window: int
    batch: int
    """In the epoch"""


class Store(Protocol):
    @property
    def fingerprint(self) -> str: ...


class StoredPairs(Store, Pairs, Protocol):
    """Pairs of id sequences in files."""


@dataclass(frozen=True)
class RowBatches(Batches):
    """Batches over the rows `rows` of a store."""

    store: Store
    rows: Rows
    config: BatchConfig
    seed: int
    _plans: dict[tuple[int, int], Plan] = field(default_factory=dict, repr=False, kw_only=True)

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint

    @property
    def size(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class PairBatches(RowBatches):
    """Training batches over the sentence pairs `rows` of a store."""

    store: StoredPairs
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

    def n_windows(self, epoch: int) -> int:
        return self._epochs.order.n_windows(epoch)

    def _plan(self, epoch: int, window: int) -> Plan:
        """Return the rows in each batch, of the pairs of this window."""
        made = self._epochs(epoch, window)
        key = [self.seed, epoch + (window << 32)]  # epochs are far fewer than 2^32
        order = plan(_with_end(made.pairs.lengths(made.rows)), self.config.tokens, np.random.Philox(key=key))
        return [made.rows[batch] for batch in order]

    def _count(self, epoch: int, window: int) -> int:
        if not self._epochs.keeps_lengths:
            return super()._count(epoch, window)
        lengths = self.store.lengths(self._epochs.order(epoch, window))
        return count_batches(_with_end(lengths), self.config.tokens)

    @cached_property
    def _epochs(self) -> EpochPairs:
        order = self.order or AllRows(self.rows, self.seed)
        return EpochPairs(self.store, order, self.seed, self.modify, self.resample)

    def _texts(self, rows: NDArray[np.int64], epoch: int, index: int, window: int = 0) -> tuple[Ragged, Ragged]:
        """Return the sources and targets of a batch, segmented for this epoch."""
        made = self._epochs(epoch, window)
        src, tgt = made.pairs.src(rows), made.pairs.tgt(rows)
        return (src, tgt) if made.is_segmented else self._epochs.sample(src, tgt, epoch, index)

    def _collate(self, rows: NDArray[np.int64], place: Place) -> Batch:
        src, tgt = self._texts(rows, place.epoch, place.batch, place.window)
        width = padded_length(int(max(src.lengths.max(), tgt.lengths.max())) + 1)
        batch = self.collate(src, tgt, max(len(rows), rows_for(width, self.config.tokens)))
        if self.guide is None:
            return batch
        store_rows = self._epochs(place.epoch, place.window).store_rows
        shape = (batch.size, batch.tgt_out.shape[1], batch.src.shape[1])
        return replace(batch, links=self.guide(rows if store_rows is None else store_rows[rows], src, tgt, shape))


Lengths = tuple[NDArray[np.int64], NDArray[np.int64]]


def _with_end(lengths: Lengths) -> Lengths:
    """Return the lengths with the special token at the end."""
    return lengths[0] + 1, lengths[1] + 1


def plan(lengths: Lengths, budget: int, bits: np.random.BitGenerator) -> Plan:
    """Divide all pairs into batches of at most `budget` padded tokens per side, in random order.

    Pairs are shuffled, then sorted (stably) by padded shape, first by the longer side, and cut in that order. Pairs
    that do not fill a batch join those of the next greater length, so that only the very last batch is not full.
    """
    generator = np.random.Generator(bits)
    src, tgt = (padded_lengths(side) for side in lengths)
    shuffled = generator.permutation(len(src))
    order = shuffled[np.argsort(_shape_ranks(src, tgt)[shuffled], kind="stable")]
    batches: Plan = []
    for start, rows, full in _cuts(np.maximum(src, tgt), budget):
        batches += np.split(order[start : start + full], range(rows, full, rows))
    return [batches[i] for i in generator.permutation(len(batches))]


def count_batches(lengths: Lengths, budget: int) -> int:
    """Return how many batches `plan` makes."""
    width = np.maximum(*(padded_lengths(side) for side in lengths))
    return sum(-(-full // rows) for _, rows, full in _cuts(width, budget))


def _cuts(width: NDArray[np.int64], budget: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first pair, pairs per batch, pairs) of the batches of each length, for pairs in the order of lengths."""
    start = end = rows = 0
    counts = np.bincount(width)
    for level in np.flatnonzero(counts).tolist():
        end += int(counts[level])
        rows = rows_for(level, budget)
        if full := (end - start) // rows * rows:
            yield start, rows, full
        start += full
    if start < end:
        yield start, rows, end - start


def _shape_ranks(src: NDArray[np.int64], tgt: NDArray[np.int64]) -> NDArray[np.unsignedinteger[Any]]:
    """Return a number per pair that sorts pairs by longer side, source and target; small ones are sorted faster."""
    levels = np.flatnonzero(np.bincount(np.concatenate([src, tgt])))
    rows, columns = (side.ravel() for side in np.meshgrid(levels, levels, indexing="ij"))
    ranks = np.empty(len(rows), dtype=np.uint16 if len(rows) < 1 << 16 else np.uint64)
    ranks[np.lexsort((columns, rows, np.maximum(rows, columns)))] = np.arange(len(rows))
    index = np.zeros(int(levels.max(initial=0)) + 1, dtype=np.int64)
    index[levels] = np.arange(len(levels))
    return ranks[index[src] * len(levels) + index[tgt]]


def rows_for(width: int, budget: int) -> int:
    """Return the number of sentences of this width per batch: as many as fit the budget, a multiple of 8 from 8 on."""
    rows = max(1, budget // width)
    return rows if rows < 8 else rows // 8 * 8
