"""Blocks of plain text: training batches for next-token and masked-token models, and evaluation windows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.batch_order import BatchConfig, Batches, Place
from regard.data.text_store import TextStore
from regard.errors import UserError
from regard.text.vocab import BOS, MASK, PAD, SPECIALS

# Masked-token training (Devlin et al. 2019): the probability that a token is to be predicted, and of those the
# probabilities that it is replaced by MASK or by a random token. The others stay unchanged.
_PREDICTED = 0.15
_MASKED, _RANDOM = 0.8, 0.1

IdArray = NDArray[np.int64]


@dataclass(frozen=True)
class _Blocks(Batches):
    """Shuffled blocks of exactly `context` ids. In each epoch the text is cut from another random offset.

    All batches have the same shape: blocks that do not fill a batch are left out of the epoch.
    """

    store: TextStore
    config: BatchConfig
    seed: int
    context: int
    _plans: dict[tuple[int, int], list[IdArray]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.context < 1:
            raise UserError(f"a context of {self.context} tokens is too small; set it to 1 or more")
        if len(self.store) < self.context:
            raise UserError(
                f"the text has {len(self.store):,} tokens, fewer than one block of {self.context:,}; "
                "lower the context or give more text"
            )

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint

    @property
    def size(self) -> int:
        return len(self.store) // self.context

    @property
    def n_rows(self) -> int:
        """Blocks per batch: as many as fit in the token budget, but not more than an epoch has at any offset."""
        least = (len(self.store) - self.context + 1) // self.context
        return max(1, min(self.config.tokens // self.context, least))

    def _plan(self, epoch: int, window: int) -> list[IdArray]:
        """Return the positions at which the blocks of each batch start."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        spare = len(self.store) - self.context
        offset = int(generator.integers(min(self.context, spare + 1)))
        starts = offset + self.context * generator.permutation((len(self.store) - offset) // self.context)
        n_batches = len(starts) // self.n_rows
        return list(starts[: n_batches * self.n_rows].reshape(n_batches, self.n_rows))

    def blocks(self, starts: IdArray) -> IdArray:
        """Return the blocks at the positions [B] as [B, context]."""
        return self.store.ids[starts[:, None] + np.arange(self.context)].astype(np.int64)


class TextBatches(_Blocks):
    """Batches for next-token training.

    src [B, 0]; tgt_in [B, context]: BOS and the block without its last id; tgt_out [B, context]: the block.
    """

    def _collate(self, rows: IdArray, place: Place) -> Batch:
        blocks = self.blocks(rows)
        return Batch(_empty(len(rows)), torch.from_numpy(_shift_right(blocks)), torch.from_numpy(blocks))


class MaskedBatches(_Blocks):
    """Batches for masked-token training (Devlin et al. 2019), without BOS; special tokens are never masked.

    src [B, context]: the block with some tokens replaced; tgt_in [B, 0]; tgt_out [B, context]: the original token at
    the positions to predict, PAD at the others. A block that has an ordinary token has at least one to predict.
    """

    def _collate(self, rows: IdArray, place: Place) -> Batch:
        blocks = self.blocks(rows)
        generator = np.random.default_rng([self.seed, place.epoch, place.batch])
        ordinary = blocks >= len(SPECIALS)
        draw = np.where(ordinary, generator.random(blocks.shape), 1.0)
        predicted = ordinary & ((draw < _PREDICTED) | (draw == draw.min(axis=1, keepdims=True)))
        kind = generator.random(blocks.shape)
        random_ids = generator.integers(len(SPECIALS), self.store.vocab_size, blocks.shape)
        replaced = np.where(kind < _MASKED, MASK, np.where(kind < _MASKED + _RANDOM, random_ids, blocks))
        src, tgt_out = np.where(predicted, replaced, blocks), np.where(predicted, blocks, PAD)
        return Batch(torch.from_numpy(src), _empty(len(rows)), torch.from_numpy(tgt_out))


def windows(ids: NDArray[Any], context: int, stride: int) -> Iterator[tuple[IdArray, IdArray]]:
    """Yield (tgt_in, tgt_out), each [context], such that every id of the text is a target exactly once.

    Each window starts `stride` ids after the previous one, and ids that an earlier window predicts are PAD in its
    tgt_out. Except in the first window, each target has at least context − stride ids before it.
    """
    if not 1 <= stride <= context:
        raise UserError(f"a stride of {stride} does not fit a context of {context}; choose 1 to {context}")
    scored = 0
    for start in range(0, len(ids), stride):
        window = np.full(context, PAD, dtype=np.int64)
        end = min(start + context, len(ids))
        window[: end - start] = ids[start:end]
        tgt_out = window.copy()
        tgt_out[: scored - start] = PAD
        yield _shift_right(window[None])[0], tgt_out
        scored = end
        if end == len(ids):
            return


def _shift_right(blocks: IdArray) -> IdArray:
    """[B, T] → [B, T]: BOS followed by all but the last id."""
    return np.concatenate([np.full((len(blocks), 1), BOS), blocks[:, :-1]], axis=1)


def _empty(rows: int) -> torch.Tensor:
    return torch.empty(rows, 0, dtype=torch.int64)
