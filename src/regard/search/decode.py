"""How to decode, as options, and the one entry to every search."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.search.beam import beam_search
from regard.search.constraints import (
    Constraint,
    Constraints,
    Demand,
    MaxLength,
    MinLength,
    NoRepeatNgram,
    Prefix,
    Suppress,
)
from regard.search.greedy import GreedyChoice, SampledChoice, follow
from regard.search.protocols import Hypothesis, Renumbered, Stepper, Watcher
from regard.text.vocab import BOS, EOS, MASK, PAD, SEP


class SamplingConfig(Config):
    temperature: float = Field(1.0, gt=0.0)
    top_k: int = Field(0, ge=0)
    """Draw among the k likeliest tokens; 0: all."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """Draw among the fewest tokens that hold this much of the probability."""
    seed: int = Field(1, ge=0)


class DecodeConfig(Config):
    beam: int = Field(5, ge=1, le=1000)
    """Hypotheses side by side; 1 is greedy search."""
    n_best: int = Field(1, ge=1)
    length_penalty: float = Field(0.6, ge=0.0)
    """α of the length normalisation; 0 compares plain log-probabilities."""
    min_len: int = Field(0, ge=0)
    max_len: int | None = Field(None, ge=1)
    """Tokens at most; by default twice the source and ten."""
    no_repeat_ngram: int = Field(0, ge=0)
    """No sequence of this many tokens occurs twice; 0: off."""
    sampling: SamplingConfig | None = None
    """Draw tokens instead of searching; n_best of them a sentence."""

    @model_validator(mode="after")
    def n_best_fits(self) -> Self:
        if self.sampling is None and self.n_best > self.beam:
            raise ValueError(f"n_best={self.n_best} needs a beam of at least {self.n_best}, not {self.beam}")
        return self


def decode(
    model: Stepper,
    batch: Batch,
    config: DecodeConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    watch: Watcher | None = None,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each source, best first; `prefixes` are ids that a target must start with."""
    limits = length_limits(batch, config, prefixes)
    if (room := model.room(batch)) is not None:
        limits = limits.minimum(room)
    constraints = _constraints(config, limits, prefixes)
    if config.sampling is not None:
        return _sample(model, batch, constraints, config, config.sampling, watch)
    if config.beam == 1:
        found = follow(model, batch, constraints, GreedyChoice(), config.length_penalty, watch)
        return [[hypothesis] for hypothesis in found]
    return beam_search(model, batch, constraints, limits, config.beam, config.n_best, config.length_penalty, watch)


def sample_tokens(
    model: Stepper, batch: Batch, prefix: Sequence[int], room: int, config: SamplingConfig, place: int
) -> Iterator[int]:
    """Up to `room` tokens that follow the prefix in the one row of the batch, each as soon as it is drawn.

    `place` numbers the draws, so that a text that is read again from its middle goes on with fresh ones.
    """
    seeds = _row_seeds(batch, 1, config.seed)
    choose = SampledChoice(seeds, config.temperature, config.top_k, config.top_p)
    ids, state = [BOS, *prefix], model.start(batch)
    for token in ids[:-1]:
        _, state = _step(model, state, token, batch)
    allowed = Suppress((PAD, BOS, SEP, MASK))
    for i in range(room):
        log_probs, state = _step(model, state, ids[-1], batch)
        token = int(choose(allowed(log_probs, log_probs), place + i))
        if token == EOS:
            return
        yield token
        ids.append(token)


@torch.inference_mode()
def _step(model: Stepper, state: Any, token: int, batch: Batch) -> tuple[Tensor, Any]:
    return model.step(state, torch.tensor([token], device=batch.src.device))


def length_limits(batch: Batch, config: DecodeConfig, prefixes: Sequence[Sequence[int]] | None = None) -> Tensor:
    """[B]: each sentence's own bound, so that it does not depend on its neighbours in the batch."""
    lengths = batch.lengths
    limits = 2 * lengths + 10 if config.max_len is None else torch.full_like(lengths, config.max_len)
    if prefixes is not None:
        limits = limits.maximum(torch.tensor([len(p) for p in prefixes]).to(limits))
    return limits.clamp(min=config.min_len)


def _constraints(config: DecodeConfig, limits: Tensor, prefixes: Sequence[Sequence[int]] | None) -> Constraints:
    forbidding: list[Constraint] = [Suppress((PAD, BOS, SEP, MASK))]
    if config.no_repeat_ngram:
        forbidding.append(NoRepeatNgram(config.no_repeat_ngram))
    if config.min_len:
        forbidding.append(MinLength(config.min_len))
    demanding: list[Demand] = [MaxLength(limits)]
    if prefixes is not None:
        demanding.append(Prefix.of(prefixes, limits.device))
    return Constraints(tuple(forbidding), tuple(demanding))


def _sample(
    model: Stepper,
    batch: Batch,
    constraints: Constraints,
    config: DecodeConfig,
    sampling: SamplingConfig,
    watch: Watcher | None,
) -> list[list[Hypothesis]]:
    n = config.n_best
    spread = torch.arange(batch.size, device=batch.src.device).repeat_interleave(n)
    choice = SampledChoice(_row_seeds(batch, n, sampling.seed), sampling.temperature, sampling.top_k, sampling.top_p)
    seen = None if watch is None else Renumbered(watch, spread)  # samples of one sentence are shown as such
    found = follow(model, batch.select(spread), constraints.select(spread), choice, config.length_penalty, seen)
    groups = [found[i : i + n] for i in range(0, len(found), n)]
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]


def _row_seeds(batch: Batch, n: int, seed: int) -> tuple[int, ...]:
    """A seed a row from the sentence itself, so that it draws the same alone and in any batch."""
    seeds = []
    for row in batch.src.cpu():
        source = row[row != PAD].numpy().tobytes()
        for sample in range(n):
            digest = hashlib.sha256(f"{seed} {sample} ".encode() + source).digest()
            seeds.append(int.from_bytes(digest[:8], "little"))
    return tuple(seeds)
