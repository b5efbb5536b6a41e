"""A batch of sentence pairs, and how sentences become one."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.text.vocab import BOS, EOS, PAD

# Lengths are padded up to one of these (and multiples of 64 past the last), so that few shapes occur.
PADDED_LENGTHS = (*range(8, 65, 8), 80, 96, 112, 128, 160, 192, 224, 256)

_PICTURE_LENGTH = 25


@dataclass(frozen=True)
class Batch:
    """src [B, S]: tokens and EOS, or pictures [B, 3, H, W]; tgt_in [B, T]: BOS and tokens; tgt_out [B, T]: the next.

    PAD fills up the right, and where tgt_out is PAD nothing is asked.
    """

    src: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    links: Tensor | None = None
    """[B, T, S]: where each target token should look, if that is given; rows sum to one, or to zero: nowhere said"""

    @classmethod
    def of(cls, src: Tensor, tgt: Tensor) -> "Batch":
        """tgt [B, T + 1]: BOS, tokens and EOS"""
        return cls(src, tgt[:, :-1].contiguous(), tgt[:, 1:].contiguous())

    @property
    def lengths(self) -> Tensor:
        """[B]: tokens of each source; a picture counts as so many, that its caption may be as long as a sentence"""
        if self.src.is_floating_point():
            return torch.full((len(self.src),), _PICTURE_LENGTH, device=self.src.device)
        return (self.src != PAD).sum(1)

    @property
    def size(self) -> int:
        return len(self.src)

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        return Batch(*(t.pin_memory().to(device, non_blocking=True) for t in self.parts()))

    def select(self, rows: Tensor) -> "Batch":
        return Batch(*(t.index_select(0, rows) for t in self.parts()))

    def parts(self) -> tuple[Tensor, ...]:
        return (self.src, self.tgt_in, self.tgt_out, *(() if self.links is None else (self.links,)))


@dataclass(frozen=True)
class Ragged:
    """Sequences of different lengths, one behind the other."""

    ids: NDArray[Any]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum())), lengths)

    def lists(self) -> list[list[int]]:
        return [part.tolist() for part in np.split(self.ids, np.cumsum(self.lengths)[:-1])]

    def fill(self, array: NDArray[np.int64], start: int) -> None:
        """Write row i into array[i, start:] and an EOS behind it."""
        n = len(self.lengths)
        columns = np.arange(array.shape[1])
        inside = (columns >= start) & (columns < (start + self.lengths)[:, None])
        array[:n][inside] = self.ids
        array[np.arange(n), start + self.lengths] = EOS


def collate(src: Ragged, tgt: Ragged, rows: int | None = None) -> Batch:
    """Pairs of ids without specials → Batch padded to the edges, and to `rows` rows.

    A row that only fills up has an EOS as its source, so that attention has something to look at, and no target.
    """
    return Batch.of(_collate_padded_sources(src, rows), collate_targets(tgt, rows))


def collate_labels(src: Ragged, labels: Ragged, rows: int | None = None) -> Batch:
    """Texts, and one label each: tgt_in [B, 0], tgt_out [B, 1]"""
    asked = torch.full((rows or len(labels.lengths), 1), PAD)
    asked[: len(labels.lengths), 0] = torch.from_numpy(labels.ids.astype(np.int64))
    return Batch(_collate_padded_sources(src, rows), asked[:, :0], asked)


def _collate_padded_sources(src: Ragged, rows: int | None) -> Tensor:
    n = len(src.lengths)
    array = np.full((rows or n, padded_length(int(src.lengths.max()) + 1)), PAD, dtype=np.int64)
    src.fill(array, start=0)
    array[n:, 0] = EOS
    return torch.from_numpy(array)


def collate_targets(tgt: Ragged, rows: int | None = None) -> Tensor:
    """Ids without specials → [rows, T + 1]: BOS, tokens, EOS and PAD up to an edge; PAD alone where a row fills up."""
    n = len(tgt.lengths)
    array = np.full((rows or n, padded_length(int(tgt.lengths.max()) + 1) + 1), PAD, dtype=np.int64)
    tgt.fill(array, start=1)
    array[:n, 0] = BOS
    return torch.from_numpy(array)


def collate_sources(src: Sequence[Sequence[int]]) -> Batch:
    """Sources alone, for decoding; padded to the longest and no further."""
    width = max(len(s) for s in src) + 1
    rows = [[*s, EOS, *[PAD] * (width - len(s) - 1)] for s in src]
    nothing = torch.empty(len(src), 0, dtype=torch.int64)
    return Batch(torch.tensor(rows, dtype=torch.int64), nothing, nothing)


def padded_lengths(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The padded lengths: the next of EDGES, or the next multiple of 64."""
    table = np.asarray(PADDED_LENGTHS)
    inside = table[np.minimum(np.searchsorted(table, lengths), len(table) - 1)]
    return np.where(lengths > table[-1], -(-lengths // 64) * 64, inside)


def padded_length(length: int) -> int:
    return int(padded_lengths(np.asarray(length)))
