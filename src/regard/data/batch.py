"""A batch of padded id sequences, and how sequences are collated into one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.memory import split_to_fit
from regard.text.ragged import Ragged
from regard.text.vocab import BOS, EOS, PAD

R = TypeVar("R")

PADDED_LENGTHS = (*range(4, 64, 4), *range(64, 128, 8), *range(128, 257, 16))
"""Sequences are padded to one of these lengths (above 256 to a multiple of 64), so that few shapes occur."""

_IMAGE_LENGTH = 25


@dataclass(frozen=True)
class Batch:
    """A batch of sources and targets, padded with PAD on the right.

    src [B, S]: source tokens and EOS, or images [B, 3, H, W]; tgt_in [B, T]: BOS and target tokens;
    tgt_out [B, T]: the token to predict at each position, PAD where there is none.
    """

    src: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    links: Tensor | None = None
    """[B, T, S]: the attention that guided alignment teaches. Each row sums to 1, or to 0 where no link is known."""

    @classmethod
    def of(cls, src: Tensor, tgt: Tensor) -> "Batch":
        """Make a batch from a target [B, T + 1] of BOS, tokens and EOS."""
        return cls(src, tgt[:, :-1].contiguous(), tgt[:, 1:].contiguous())

    @property
    def lengths(self) -> Tensor:
        """[B]: tokens per source. An image counts as a fixed number, which bounds the length of its caption."""
        if self.src.is_floating_point():
            return torch.full((len(self.src),), _IMAGE_LENGTH, device=self.src.device)
        return (self.src != PAD).sum(1)

    @property
    def size(self) -> int:
        return len(self.src)

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(_move(tensor, device) for tensor in self.tensors()))

    def select(self, rows: Tensor) -> "Batch":
        return Batch(*(tensor.index_select(0, rows) for tensor in self.tensors()))

    def split(self, n: int) -> "list[Batch]":
        """Divide the rows into n parts of about equal size, or into single rows if there are fewer than n."""
        if n == 1:
            return [self]
        bounds = [i * self.size // n for i in range(n + 1)]
        return [self.part(range(low, high)) for low, high in pairwise(bounds) if low < high]

    def part(self, rows: range) -> "Batch":
        """Return consecutive rows, without copying them."""
        return Batch(*(tensor[rows.start : rows.stop] for tensor in self.tensors()))

    def without_targets(self) -> "Batch":
        """Return the batch with nothing to predict, so that its loss and its gradient are 0."""
        links = None if self.links is None else torch.zeros_like(self.links)
        return Batch(self.src, self.tgt_in, torch.full_like(self.tgt_out, PAD), links)

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.src, self.tgt_in, self.tgt_out, *(() if self.links is None else (self.links,)))


def run_parts(run: Callable[[Batch], R], batch: Batch, device: torch.device) -> Iterator[R]:
    """Yield the result of `run` for a batch that is moved to the device, or results for parts of it that fit there."""
    advice = "use shorter texts or a smaller model"
    return split_to_fit(lambda rows: run(batch.part(rows).to(device)), batch.size, advice)


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor; from CPU to GPU through pinned memory, so that the copy overlaps with computation."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def collate(src: Ragged, tgt: Ragged, rows: int | None = None) -> Batch:
    """Make a padded batch from pairs of ids without special tokens, with filler rows up to `rows` rows.

    The source of a filler row is a single EOS, so that attention has a token to attend to; its target is empty.
    """
    return Batch.of(_collate_padded_sources(src, rows), collate_targets(tgt, rows))


def collate_labels(src: Ragged, labels: Ragged, rows: int | None = None) -> Batch:
    """Make a batch of texts with one label each: tgt_in [B, 0], tgt_out [B, 1]."""
    targets = torch.full((rows or len(labels.lengths), 1), PAD)
    targets[: len(labels.lengths), 0] = torch.from_numpy(labels.ids.astype(np.int64))
    return Batch(_collate_padded_sources(src, rows), targets[:, :0], targets)


def _collate_padded_sources(src: Ragged, rows: int | None) -> Tensor:
    n = len(src.lengths)
    array = np.full((rows or n, padded_length(int(src.lengths.max()) + 1)), PAD, dtype=np.int64)
    src.fill(array, start=0)
    array[n:, 0] = EOS
    return torch.from_numpy(array)


def collate_targets(tgt: Ragged, rows: int | None = None) -> Tensor:
    """Return ids without special tokens as [rows, T + 1]: BOS, tokens, EOS and padding. Filler rows are all PAD."""
    n = len(tgt.lengths)
    array = np.full((rows or n, padded_length(int(tgt.lengths.max()) + 1) + 1), PAD, dtype=np.int64)
    tgt.fill(array, start=1)
    array[:n, 0] = BOS
    return torch.from_numpy(array)


def collate_sources(src: Sequence[Sequence[int]], width: int | None = None) -> Batch:
    """Make a batch for decoding: sources padded to `width`, by default to the longest one, no targets."""
    width = width or max(len(s) for s in src) + 1
    rows = [[*s, EOS, *[PAD] * (width - len(s) - 1)] for s in src]
    empty = torch.empty(len(src), 0, dtype=torch.int64)
    return Batch(torch.tensor(rows, dtype=torch.int64), empty, empty)


def forced_batch(src: Sequence[Sequence[int]] | None, tgt: Sequence[Sequence[int]]) -> Batch:
    """Make a batch for teacher forcing from ids without special tokens, padded to the longest; None: no sources."""
    sources = np.empty((len(tgt), 0), dtype=np.int64)
    if src is not None:
        sources = Ragged.of([[*ids, EOS] for ids in src]).matrix(PAD)
    targets = Ragged.of([[BOS, *ids, EOS] for ids in tgt]).matrix(PAD)
    return Batch.of(torch.from_numpy(sources), torch.from_numpy(targets))


def padded_lengths(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round lengths up to the next of PADDED_LENGTHS, or above its last to the next multiple of 64."""
    table = np.asarray(PADDED_LENGTHS)
    inside = table[np.minimum(np.searchsorted(table, lengths), len(table) - 1)]
    return np.where(lengths > table[-1], -(-lengths // 64) * 64, inside)


@lru_cache(maxsize=4096)
def padded_length(length: int) -> int:
    return int(padded_lengths(np.asarray(length)))
