"""Second step: which pairs the filters leave out, as `apply_rules` finds them in a whole corpus, in bounded memory.

Duplicates are found by their hashes, one range of hashes after the other. The rule about lengths needs to know only how
often each pair of lengths occurs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.pair_rules import DUPLICATE, RATIO, FilterConfig
from regard.data.pair_table import PairTable
from regard.data.prepared.read_shard import CleanShard
from regard.data.reading_progress import ReadingProgress, no_progress

KEPT = 0
_CODES = {DUPLICATE.problem: 1, RATIO.problem: 2}
PROBLEMS = {code: problem for problem, code in _CODES.items()}
"""Why a pair is left out, by the number in the file"""
_PER_RANGE = 1 << 21  # pairs compared at a time
_COUNT_BITS = np.uint64(32)


def write_reasons(
    shards: Sequence[CleanShard], config: FilterConfig | None, path: Path, progress: ReadingProgress = no_progress
) -> None:
    """Write one byte per pair of the shards, which are those of one corpus: 0 or why the pair is left out."""
    starts = np.cumsum([0, *(shard.n_pairs for shard in shards)])
    reasons = np.memmap(path, dtype=np.uint8, mode="w+", shape=(max(1, int(starts[-1])),))
    if config and config.drop_duplicates and shards:
        for done, duplicates in enumerate(_find_duplicates(shards, starts)):
            reasons[duplicates] = _CODES[DUPLICATE.problem]
            progress("looking for duplicates", min(done * _PER_RANGE, int(starts[-1])), int(starts[-1]))
    if config and config.drop_extreme_ratios:
        extreme = _extreme_lengths(shards, reasons, starts)
        for shard, start in zip(shards, starts.tolist(), strict=False):
            part = reasons[start : start + shard.n_pairs]
            part[(part == KEPT) & np.isin(_packed(shard.table), extreme)] = _CODES[RATIO.problem]
    reasons.flush()


def _find_duplicates(shards: Sequence[CleanShard], starts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the pairs that are duplicates of earlier ones, for each range of hashes."""
    n_ranges = max(1, -(-int(starts[-1]) // _PER_RANGE))
    limits = [(number << 64) // n_ranges for number in range(1, n_ranges)]
    bounds = np.array(limits, dtype=np.uint64)
    cuts = []
    for shard in shards:
        ordered = shard.table.pairs[shard.order]
        cuts.append([0, *np.searchsorted(ordered, bounds).tolist(), shard.n_pairs])
    for number in range(n_ranges):
        hashes, rows = [], []
        for shard, start, cut in zip(shards, starts.tolist(), cuts, strict=False):
            chosen = np.asarray(shard.order[cut[number] : cut[number + 1]], dtype=np.int64)
            hashes.append(PairTable(shard.table.hashes[chosen], shard.table.lengths[:0]).pairs)
            rows.append(start + chosen)
        all_hashes, all_rows = np.concatenate(hashes), np.concatenate(rows)
        order = np.argsort(all_hashes, kind="stable")  # the rows of a shard are ordered, and shards follow each other
        again = np.flatnonzero(all_hashes[order[1:]] == all_hashes[order[:-1]]) + 1
        yield all_rows[order[again]]


def _extreme_lengths(
    shards: Sequence[CleanShard], reasons: NDArray[np.uint8], starts: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the pairs of lengths that the rule about ratios leaves out.

    It is applied until it finds nothing more: first to all pairs, then to those that are left.
    """
    every, kept = _LengthCounts(), _LengthCounts()
    for shard, start in zip(shards, starts.tolist(), strict=False):
        packed = _packed(shard.table)
        every.add(packed)
        kept.add(packed[reasons[start : start + shard.n_pairs] == KEPT])
    lengths, counts = every.values, every.counts
    extreme = lengths[:0]
    while True:
        found = lengths[RATIO.of_counts(_unpacked(lengths), counts)]
        before, extreme = len(extreme), np.union1d(extreme, found)
        rest = ~np.isin(kept.values, extreme)
        if len(extreme) == before and (len(lengths), counts.sum()) == (rest.sum(), kept.counts[rest].sum()):
            return extreme
        lengths, counts = kept.values[rest], kept.counts[rest]


class _LengthCounts:
    """How often each pair of lengths occurs."""

    def __init__(self) -> None:
        self.values, self.counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)

    def add(self, packed: NDArray[np.uint64]) -> None:
        new, counts = np.unique(packed, return_counts=True)
        values, places = np.unique(np.concatenate([self.values, new]), return_inverse=True)
        total = np.bincount(places, np.concatenate([self.counts, counts]), minlength=len(values))
        self.values, self.counts = values, total.astype(np.int64)


def _packed(table: PairTable) -> NDArray[np.uint64]:
    """Return both lengths of each pair in one number."""
    src, tgt = table.lengths.astype(np.uint64).T
    return (src << _COUNT_BITS) | tgt


def _unpacked(packed: NDArray[np.uint64]) -> NDArray[np.int32]:
    return np.stack([packed >> _COUNT_BITS, packed & np.uint64(0xFFFFFFFF)], axis=1).astype(np.int32)
