"""Sampling: temperature, top-k, top-p and ε, with seeds that do not depend on the batch."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.search.slots import Slots
from regard.text.vocab import PAD


class SamplingConfig(Config):
    """Options of sampling."""

    temperature: float = Field(1.0, ge=0.001, le=1000.0)
    top_k: int = Field(0, ge=0, le=1_000_000)
    """Sample from the k most likely tokens; 0: from all."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """Sample from the smallest set of tokens that holds this much probability."""
    epsilon: float = Field(0.0, ge=0.0, lt=1.0)
    """Leave out tokens that are less likely than this, except the most likely one; 0: none."""
    seed: int = Field(1, ge=0, lt=2**63)


@dataclass(frozen=True)
class TokenPenalties:
    """Changes of log-probabilities before sampling, against repetition and for or against single tokens.

    They are those of OpenAI's API: log p of a token that was generated c times becomes
    log p + bias − c · frequency − (1 if c > 0) · presence.
    """

    presence: float = 0.0
    frequency: float = 0.0
    bias: tuple[tuple[int, float], ...] = ()
    """(id, number to add) pairs"""

    def __call__(self, log_probs: Tensor, generated: Sequence[int]) -> Tensor:
        """log_probs [1, V] of the token that follows the generated ones → [1, V]"""
        changes = dict(self.bias)
        for token, count in Counter(generated).items():
            changes[token] = changes.get(token, 0.0) - self.frequency * count - self.presence
        ids = torch.tensor(list(changes), dtype=torch.int64, device=log_probs.device)
        values = torch.tensor(list(changes.values()), dtype=log_probs.dtype, device=log_probs.device)
        return log_probs.index_add(1, ids, values[None])


@dataclass(frozen=True)
class SampledChoice:
    """Samples the next token. Each hypothesis has its own seed, so a sentence samples the same in any batch."""

    config: SamplingConfig

    def __call__(self, log_probs: Tensor, slots: Slots[Any]) -> Tensor:
        """log_probs [R, V] of the next tokens → ids [R, 1]"""
        return sample(log_probs, slots.seeds.flatten(), slots.rows(slots.lengths) - 1, self.config)


def sample(log_probs: Tensor, seeds: Tensor, positions: Tensor, config: SamplingConfig) -> Tensor:
    """Sample tokens from log_probs [R, V], given the seed of each row and the position of the token [R] → ids [R, 1]"""
    ranked, ids = _ranked_probabilities(log_probs, config)
    cumulative = ranked.cumsum(-1)
    u = uniform(seeds, positions)[:, None] * cumulative[:, -1:]
    index = torch.searchsorted(cumulative, u, right=True)
    last = (ranked > 0).sum(-1, keepdim=True) - 1  # rounding must not select a token that was filtered out
    return ids.gather(1, index.minimum(last.clamp(min=0)))


def uniform(seeds: Tensor, counter: Tensor) -> Tensor:
    """Return random numbers in [0, 1), float64, that depend on seed and counter [R] only (SplitMix64, Steele 2014).

    Whole numbers give the same on every device.
    """
    z = seeds + (counter + 1) * -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed number, like the other factors
    z = (z ^ _shift(z, 30)) * -0x40A7B892E31B1A47
    z = (z ^ _shift(z, 27)) * -0x6B2FB644ECCEEE15
    return _shift(z ^ _shift(z, 31), 11).double() * 2.0**-53


def _shift(x: Tensor, n: int) -> Tensor:
    """Shift to the right by n bits, filling with zeros."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def filter_probabilities(log_probs: Tensor, config: SamplingConfig) -> Tensor:
    """Return the probabilities of sampling, not normalised: 0 where a token cannot be sampled;  [R, V]"""
    ranked, ids = _ranked_probabilities(log_probs, config)
    return ranked.new_zeros(log_probs.shape).scatter(1, ids, ranked)


def _ranked_probabilities(log_probs: Tensor, config: SamplingConfig) -> tuple[Tensor, Tensor]:
    """Apply temperature, and set probabilities outside top-k, top-p and ε to 0;  [R, V] → [R, c] sorted, and their ids

    At most 1/ε tokens have a probability of ε or more, and finding these is quicker than sorting all.
    """
    probs = (log_probs.double() / config.temperature).softmax(-1)
    n = int(min(probs.shape[1], 1 / config.epsilon + 1)) if config.epsilon else probs.shape[1]
    ranked, ids = probs.topk(n) if n < probs.shape[1] else probs.sort(-1, descending=True)
    outside = ((ranked.cumsum(-1) - ranked) >= config.top_p) | (ranked < config.epsilon)
    if config.top_k:
        outside[:, config.top_k :] = True
    outside[:, 0] = False
    return ranked.masked_fill(outside, 0.0), ids


def row_seeds(batch: Batch, n_samples: int, seed: int) -> Tensor:
    """Derive `n_samples` seeds per sentence [B, n] from its tokens: it samples the same alone and in any batch."""
    seeds = []
    for row in batch.src.cpu():
        source = row[row != PAD].numpy().tobytes()
        for sample in range(n_samples):
            digest = hashlib.sha256(f"{seed} {sample} ".encode() + source).digest()
            seeds.append(int.from_bytes(digest[:8], "little", signed=True))
    return torch.tensor(seeds, dtype=torch.int64, device=batch.src.device).view(batch.size, n_samples)
