"""A batch of sentence pairs, and how sentences become one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.text.vocab import BOS, EOS, PAD

# Lengths are padded up to one of these (and multiples of 64 past the last), so that few shapes occur.
EDGES = (*range(8, 65, 8), 80, 96, 112, 128, 160, 192, 224, 256)


@dataclass(frozen=True)
class Batch:
    """src [B, S]: tokens and EOS; tgt [B, T + 1]: BOS, tokens and EOS. PAD fills up the right."""

    src: Tensor
    tgt: Tensor

    @property
    def tgt_in(self) -> Tensor:
        return self.tgt[:, :-1]

    @property
    def tgt_out(self) -> Tensor:
        return self.tgt[:, 1:]

    @property
    def size(self) -> int:
        return len(self.src)

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        return Batch(*(t.pin_memory().to(device, non_blocking=True) for t in (self.src, self.tgt)))


def collate(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], rows: int | None = None) -> Batch:
    """Pairs of ids without specials → Batch padded to the edges, and to `rows` rows.

    A row that only fills up has an EOS as its source, so that attention has something to look at, and no target.
    """
    n_rows = rows or len(src)
    n_src = edge(max(len(s) for s in src) + 1)
    n_tgt = edge(max(len(t) for t in tgt) + 1)
    src_array = np.full((n_rows, n_src), PAD, dtype=np.int64)
    tgt_array = np.full((n_rows, n_tgt + 1), PAD, dtype=np.int64)
    src_array[len(src) :, 0] = EOS
    for i, (s, t) in enumerate(zip(src, tgt, strict=True)):
        src_array[i, : len(s)] = s
        src_array[i, len(s)] = EOS
        tgt_array[i, 0] = BOS
        tgt_array[i, 1 : len(t) + 1] = t
        tgt_array[i, len(t) + 1] = EOS
    return Batch(torch.from_numpy(src_array), torch.from_numpy(tgt_array))


def collate_sources(src: Sequence[Sequence[int]]) -> Batch:
    """Sources alone, for decoding; padded to the longest and no further."""
    width = max(len(s) for s in src) + 1
    rows = [[*s, EOS, *[PAD] * (width - len(s) - 1)] for s in src]
    return Batch(torch.tensor(rows, dtype=torch.int64), torch.full((len(src), 1), BOS))


def edge(length: int) -> int:
    """The padded length: the next of EDGES, or the next multiple of 64."""
    if length > EDGES[-1]:
        return -(-length // 64) * 64
    return EDGES[int(np.searchsorted(EDGES, length))]
