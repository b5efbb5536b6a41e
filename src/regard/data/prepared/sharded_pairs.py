"""The ids of a prepared corpus: memory-mapped shards that look like one sequence of pairs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import id_type, map_array
from regard.data.pair_store import IdPairs
from regard.data.parallel_corpus import CorpusPart
from regard.text.ragged import Ragged
from regard.text.tokenizer import TokenizerPair

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class IdShard:
    """One shard; its files are opened when they are first needed."""

    path: Path
    types: tuple[type[np.unsignedinteger[Any]], type[np.unsignedinteger[Any]]]

    @cached_property
    def pairs(self) -> IdPairs:
        return IdPairs(*self._side("src", self.types[0]), *self._side("tgt", self.types[1]))

    def _side(self, name: str, type_: type[np.unsignedinteger[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
        ids, ends = map_array(self.path / f"{name}.ids", type_), map_array(self.path / f"{name}.ends", np.uint32)
        return np.asarray(ids), np.asarray(ends)  # plain arrays are faster than memmaps, whose memory they share

    def hashes(self, name: str) -> NDArray[Any]:
        """Return the hashes of `sources` or `pairs` in increasing order; those of too long pairs as `long_sources` …"""
        return map_array(self.path / name, np.uint64 if name.endswith("pairs") else np.int64)


@dataclass(frozen=True)
class ShardedPairs:
    """Pairs of id sequences in several shards."""

    shards: tuple[IdShard, ...]
    starts: Rows
    """First row of each shard, and the number of all rows"""
    fingerprint: str

    @classmethod
    def open(
        cls, folders: Sequence[Path], sizes: Sequence[int], tokenizers: TokenizerPair, fingerprint: str
    ) -> "ShardedPairs":
        types = (id_type(tokenizers.src), id_type(tokenizers.tgt))
        shards = tuple(IdShard(folder, types) for folder in folders)
        return cls(shards, np.cumsum([0, *sizes]), fingerprint)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def src(self, rows: Rows) -> Ragged:
        return self._gather(rows, IdPairs.src)

    def tgt(self, rows: Rows) -> Ragged:
        return self._gather(rows, IdPairs.tgt)

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the numbers of source and of target tokens of pairs."""
        src, tgt = np.empty_like(rows), np.empty_like(rows)
        for shard, places in self._by_shard(rows):
            src[places], tgt[places] = self.shards[shard].pairs.lengths(rows[places] - self.starts[shard])
        return src, tgt

    def _gather(self, rows: Rows, side: Callable[[IdPairs, Rows], Ragged]) -> Ragged:
        parts, order = [], []
        for shard, places in self._by_shard(rows):
            parts.append(side(self.shards[shard].pairs, rows[places] - self.starts[shard]))
            order.append(places)
        found = Ragged.joined(parts)
        if len(parts) <= 1:
            return found
        back = np.empty_like(rows)
        back[np.concatenate(order)] = np.arange(len(rows))
        return Ragged.gather(found.ids, np.concatenate([[0], np.cumsum(found.lengths)]), back)

    def _by_shard(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Yield the shards that rows belong to, and which of the rows these are."""
        numbers = np.searchsorted(self.starts, rows, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        used, first = np.unique(numbers[order], return_index=True)
        yield from zip(used.tolist(), np.split(order, first[1:]), strict=True)

    def part_rows(self, part: CorpusPart) -> slice:
        """Return the rows of the pairs of a part of the corpus."""
        return slice(part.start, part.stop)

    def count(self, name: str, hashes: NDArray[Any]) -> Rows:
        """Return how often each of some hashes occurs among the `sources` or `pairs`, or among too long ones."""
        total = np.zeros(len(hashes), dtype=np.int64)
        for shard in self.shards:
            known = shard.hashes(name)
            total += np.searchsorted(known, hashes, side="right") - np.searchsorted(known, hashes, side="left")
        return total
