"""Sampling: temperature, top-k and top-p, with seeds that do not depend on the batch."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.text.vocab import PAD


class SamplingConfig(Config):
    """Options of sampling."""

    temperature: float = Field(1.0, ge=0.001, le=1000.0)
    top_k: int = Field(0, ge=0, le=1_000_000)
    """Sample from the k most likely tokens; 0: from all."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """Sample from the smallest set of tokens that holds this much probability."""
    seed: int = Field(1, ge=0, lt=2**63)


@dataclass(frozen=True)
class SampledChoice:
    """Samples the next token. Each row has its own seed, so a sentence samples the same in any batch."""

    seeds: tuple[int, ...]
    config: SamplingConfig

    def __call__(self, log_probs: Tensor, position: int) -> Tensor:
        config = self.config
        probs = filter_probabilities(log_probs, config.temperature, config.top_k, config.top_p)
        ranked, ids = probs.sort(-1, descending=True)
        cumulative = ranked.cumsum(-1)
        draws = [np.random.Generator(np.random.Philox(key=[seed, position])).random() for seed in self.seeds]
        u = torch.tensor(draws, device=ranked.device, dtype=ranked.dtype)[:, None] * cumulative[:, -1:]
        index = torch.searchsorted(cumulative, u, right=True)
        last = (ranked > 0).sum(-1, keepdim=True) - 1  # rounding must not select a token that was filtered out
        return ids.gather(1, index.minimum(last)).squeeze(1)

    def select(self, rows: Tensor) -> "SampledChoice":
        return SampledChoice(tuple(self.seeds[i] for i in rows.tolist()), self.config)


def filter_probabilities(log_probs: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Apply temperature and set probabilities outside top-k and top-p to 0, without renormalising;  [R, V]"""
    probs = (log_probs.double() / temperature).softmax(-1)
    ranked, ids = probs.sort(-1, descending=True)
    outside = (ranked.cumsum(-1) - ranked) >= top_p
    if top_k:
        outside[:, top_k:] = True
    outside[:, 0] = False
    return torch.zeros_like(probs).scatter(1, ids, ranked.masked_fill(outside, 0.0))


def row_seeds(batch: Batch, n_samples: int, seed: int) -> tuple[int, ...]:
    """Derive `n_samples` seeds per sentence from its tokens, so that it samples the same alone and in any batch."""
    seeds = []
    for row in batch.src.cpu():
        source = row[row != PAD].numpy().tobytes()
        for sample in range(n_samples):
            digest = hashlib.sha256(f"{seed} {sample} ".encode() + source).digest()
            seeds.append(int.from_bytes(digest[:8], "little"))
    return tuple(seeds)
