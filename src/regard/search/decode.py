"""Decoding options, and the one entry point to every search."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.memory import advise_if_full, split_to_fit
from regard.search.beam import beam_search
from regard.search.constraints import (
    Constraint,
    Constraints,
    ForcedToken,
    MaxLength,
    MinLength,
    NoRepeatNgram,
    Prefix,
    Suppress,
)
from regard.search.greedy import GreedyChoice, decode_rows
from regard.search.protocols import Hypothesis, RenumberedObserver, S, StepObserver, Stepper
from regard.search.sampling import SampledChoice, SamplingConfig, row_seeds
from regard.text.vocab import BOS, EOS, MASK, PAD, SEP

_NEVER_GENERATED = (PAD, BOS, SEP, MASK)
_MEMORY_ADVICE = "use a smaller beam, a lower max_len or shorter texts"
_MAX_LEN = 1_000_000  # tokens


class DecodeConfig(Config):
    """Options of decoding."""

    beam: int = Field(5, ge=1, le=1000)
    """Beam width; 1 is greedy search."""
    n_best: int = Field(1, ge=1, le=10_000)
    length_penalty: float = Field(0.6, ge=0.0, le=10.0)
    """α of the length penalty; 0 compares plain log-probabilities."""
    min_len: int = Field(0, ge=0, le=_MAX_LEN)
    max_len: int | None = Field(None, ge=1, le=_MAX_LEN)
    """Maximum number of tokens; default: twice the source length plus ten."""
    max_source: int = Field(1024, ge=1, le=_MAX_LEN)
    """Longer sources, in tokens, are refused: time and memory grow with the square of the length."""
    no_repeat_ngram: int = Field(0, ge=0, le=_MAX_LEN)
    """No sequence of this many tokens occurs twice; 0: off."""
    sampling: SamplingConfig | None = None
    """Sample n_best hypotheses per sentence instead of searching."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.max_len is not None and self.min_len > self.max_len:
            raise ValueError(f"min_len={self.min_len} is more than max_len={self.max_len}; change one of them")
        return self

    @model_validator(mode="after")
    def _check_n_best(self) -> Self:
        if self.sampling is None and self.n_best > self.beam:
            raise ValueError(f"n_best={self.n_best} needs a beam of at least {self.n_best}, not {self.beam}")
        return self


def decode(
    model: Stepper[Any],
    batch: Batch,
    config: DecodeConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    observer: StepObserver | None = None,
) -> list[list[Hypothesis]]:
    """Return the n_best hypotheses of each source, best first. `prefixes` are ids that a target must start with.

    If memory runs out, the batch is split. With an observer it is not, because the observer has already seen steps.
    """

    def search(rows: range) -> list[list[Hypothesis]]:
        prefixes_of_rows = None if prefixes is None else prefixes[rows.start : rows.stop]
        return _search(model, batch.part(rows), config, prefixes_of_rows, observer)

    if observer is not None:
        with advise_if_full(_MEMORY_ADVICE):
            return search(range(batch.size))
    return list(chain.from_iterable(split_to_fit(search, batch.size, _MEMORY_ADVICE)))


def _search(
    model: Stepper[Any],
    batch: Batch,
    config: DecodeConfig,
    prefixes: Sequence[Sequence[int]] | None,
    observer: StepObserver | None,
) -> list[list[Hypothesis]]:
    limits = length_limits(batch, config, prefixes)
    if (model_limits := model.max_target_len(batch)) is not None:
        limits = limits.minimum(model_limits)
    constraints = _constraints(config, limits, prefixes)
    if config.sampling is not None:
        return _sample(model, batch, constraints, config, config.sampling, observer)
    if config.beam == 1:
        greedy = decode_rows(model, batch, constraints, GreedyChoice(), config.length_penalty, observer)
        return [[hypothesis] for hypothesis in greedy]
    k, n_best, alpha = config.beam, config.n_best, config.length_penalty
    return beam_search(model, batch, constraints, limits, k, n_best, alpha, observer)


def sample_tokens(
    model: Stepper[S], batch: Batch, prefix: Sequence[int], max_tokens: int, config: SamplingConfig, position: int
) -> Iterator[int]:
    """Yield up to `max_tokens` tokens that follow the prefix in the one row of the batch, as they are sampled.

    `position` numbers the random draws, so that a text that is continued from its middle gets new ones.
    """
    choose = SampledChoice(row_seeds(batch, 1, config.seed), config)
    ids, state = [BOS, *prefix], model.start(batch)
    for token in ids[:-1]:
        _, state = _step(model, state, token, batch)
    suppress = Suppress(_NEVER_GENERATED)
    for i in range(max_tokens):
        log_probs, state = _step(model, state, ids[-1], batch)
        token = int(choose(suppress(log_probs, log_probs), position + i))
        if token == EOS:
            return
        yield token
        ids.append(token)


@torch.inference_mode()
@advise_if_full(_MEMORY_ADVICE)
def _step(model: Stepper[S], state: S, token: int, batch: Batch) -> tuple[Tensor, S]:
    return model.step(state, torch.tensor([token], device=batch.src.device))


def length_limits(batch: Batch, config: DecodeConfig, prefixes: Sequence[Sequence[int]] | None = None) -> Tensor:
    """[B]: maximum length of each target, which depends on its own source only, not on the rest of the batch"""
    lengths = batch.lengths
    limits = 2 * lengths + 10 if config.max_len is None else torch.full_like(lengths, config.max_len)
    if prefixes is not None:
        limits = limits.maximum(torch.tensor([len(p) for p in prefixes]).to(limits))
    return limits.clamp(min=config.min_len)


def _constraints(config: DecodeConfig, limits: Tensor, prefixes: Sequence[Sequence[int]] | None) -> Constraints:
    forbidden: list[Constraint] = [Suppress(_NEVER_GENERATED)]
    if config.no_repeat_ngram:
        forbidden.append(NoRepeatNgram(config.no_repeat_ngram))
    if config.min_len:
        forbidden.append(MinLength(config.min_len))
    forced: list[ForcedToken] = [MaxLength(limits)]
    if prefixes is not None:
        forced.append(Prefix.of(prefixes, limits.device))
    return Constraints(tuple(forbidden), tuple(forced))


def _sample(
    model: Stepper[S],
    batch: Batch,
    constraints: Constraints,
    config: DecodeConfig,
    sampling: SamplingConfig,
    observer: StepObserver | None,
) -> list[list[Hypothesis]]:
    n = config.n_best
    rows = torch.arange(batch.size, device=batch.src.device).repeat_interleave(n)
    choose = SampledChoice(row_seeds(batch, n, sampling.seed), sampling)
    renumbered = None if observer is None else RenumberedObserver(observer, rows)
    batch, constraints = batch.select(rows), constraints.select(rows)
    samples = decode_rows(model, batch, constraints, choose, config.length_penalty, renumbered)
    groups = [samples[i : i + n] for i in range(0, len(samples), n)]
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]
