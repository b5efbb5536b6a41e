"""Texts of some pairs of a shard, on which a tokenizer is trained."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.prepared.filter_shards import KEPT
from regard.data.prepared.read_shard import CleanShard


@dataclass(frozen=True)
class SampleTask:
    """A shard and which of its kept pairs to read."""

    shard: CleanShard
    reasons: Path
    first: int
    rows: NDArray[np.int64]


def sample_shard(task: SampleTask) -> list[str]:
    """Return the texts of some kept pairs: source, target, source, target …"""
    reasons = np.fromfile(task.reasons, dtype=np.uint8, count=task.shard.n_pairs, offset=task.first)
    pairs = np.flatnonzero(reasons == KEPT)[task.rows]
    texts = task.shard.texts()
    return [text for i in pairs.tolist() for text in texts[2 * i : 2 * i + 2]]
