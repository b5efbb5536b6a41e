"""Decoding options, and the one entry point to every search."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.memory import advise_if_full, split_to_fit
from regard.models.inference import MIN_PACKED_WIDTH
from regard.search.beam import BeamSearch
from regard.search.capture import captured_steps
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
from regard.search.greedy import IndependentSearch
from regard.search.protocols import Hypothesis, Reader, S, StepObserver, Stepper
from regard.search.run import Search, SearchRule, Sentences
from regard.search.sampling import SampledChoice, SamplingConfig, row_seeds, sample
from regard.text.vocab import BOS, EOS, NEVER_GENERATED
from regard.threads import one_thread, threads_wake_quickly

_MEMORY_ADVICE = "use a smaller beam, a lower max_len or shorter texts"
_MAX_LEN = 1_000_000  # tokens
_FEW_HYPOTHESES = 16  # that one thread decodes faster than several, unless products are wide
_NARROW = 128  # width of models whose products are so small that one thread is always faster on a CPU


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
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU (except for RNNs), fp32 on a CPU."""

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
    n_slots: int | None = None,
) -> list[list[Hypothesis]]:
    """Return the n_best hypotheses of each source, best first. `prefixes` are ids that a target must start with.

    At most `n_slots` sentences are decoded at once (default: all); the others wait until one is done. If memory runs
    out, the batch is split. With an observer it is not, because the observer has already seen steps.
    """

    def search(rows: range) -> list[list[Hypothesis]]:
        prefixes_of_rows = None if prefixes is None else prefixes[rows.start : rows.stop]
        return _search(model, batch.part(rows), config, prefixes_of_rows, observer, n_slots or len(rows))

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
    n_slots: int,
) -> list[list[Hypothesis]]:
    limits = length_limits(batch.lengths, config, prefixes)
    if (model_limits := model.max_target_len(batch)) is not None:
        limits = limits.minimum(model_limits)
    rule = search_rule(config)
    seeds = torch.zeros(batch.size, rule.width, dtype=torch.int64, device=batch.src.device)
    if config.sampling is not None:
        seeds = row_seeds(batch, rule.width, config.sampling.seed)
    constraints = _constraints(config, limits, prefixes, rule.width)
    done = torch.zeros(batch.size, dtype=torch.bool, device=batch.src.device)
    sentences = Sentences(batch.src, constraints, limits, seeds, done)
    few = min(n_slots, batch.size) * rule.width <= _FEW_HYPOTHESES
    wide = getattr(model, "d_model", 0) >= MIN_PACKED_WIDTH
    alone = is_narrow(model) or (few and not (wide and threads_wake_quickly()))
    alone = alone and batch.src.device.type == "cpu"
    with captured_steps(model, batch.src.device) as capture, one_thread(alone):
        return Search(model, sentences, rule, n_slots, observer, capture).run()


def is_narrow(model: Stepper[Any]) -> bool:
    """Return whether the model's products are so small that one thread decodes fastest on a CPU."""
    return getattr(model, "d_model", _NARROW + 1) <= _NARROW


def search_rule(config: DecodeConfig) -> SearchRule:
    """Return how hypotheses are extended."""
    if config.sampling is not None:
        return IndependentSearch(config.n_best, config.n_best, config.length_penalty, SampledChoice(config.sampling))
    if config.beam == 1:
        return IndependentSearch(1, 1, config.length_penalty)
    return BeamSearch(config.beam, config.n_best, config.length_penalty)


def sample_tokens(
    model: Stepper[S], batch: Batch, prefix: Sequence[int], max_tokens: int, config: SamplingConfig, position: int
) -> Iterator[int]:
    """Yield up to `max_tokens` tokens that follow the prefix in the one row of the batch, as they are sampled.

    `position` numbers the random draws, so that a text that is continued from its middle gets new ones.
    """
    seeds = row_seeds(batch, 1, config.seed)[0]
    ids = torch.tensor([[BOS, *prefix]], device=batch.src.device)
    last, state = ids[:, -1], _read(model, batch, ids[:, :-1])
    for i in range(max_tokens):
        last, state = _sample_next(model, state, last, seeds, position + i, config)
        if (token := int(last)) == EOS:
            return
        yield token


@torch.inference_mode()
@advise_if_full(_MEMORY_ADVICE)
def _read(model: Stepper[S], batch: Batch, ids: Tensor) -> S:
    """Return the state after the ids [1, n], read at once if the model can."""
    state = model.start(batch)
    if isinstance(model, Reader):
        return model.read(state, ids) if ids.shape[1] else state
    for t in range(ids.shape[1]):
        _, state = model.step(state, ids[:, t])
    return state


@torch.inference_mode()
@advise_if_full(_MEMORY_ADVICE)
def _sample_next(
    model: Stepper[S], state: S, last: Tensor, seeds: Tensor, position: int, config: SamplingConfig
) -> tuple[Tensor, S]:
    """Read the last token [1] and sample the next one [1]."""
    log_probs, state = model.step(state, last)
    allowed = Suppress(NEVER_GENERATED)(log_probs, last, last)
    return sample(allowed, seeds, torch.full_like(seeds, position), config)[0], state


def length_limits(lengths: Tensor, config: DecodeConfig, prefixes: Sequence[Sequence[int]] | None = None) -> Tensor:
    """[B]: maximum length of each target, which depends on its own source only, not on the rest of the batch

    lengths [B]: tokens per source, EOS included
    """
    limits = 2 * lengths + 10 if config.max_len is None else torch.full_like(lengths, config.max_len)
    if prefixes is not None:
        limits = limits.maximum(torch.tensor([len(p) for p in prefixes]).to(limits))
    return limits.clamp(min=config.min_len)


def _constraints(
    config: DecodeConfig, limits: Tensor, prefixes: Sequence[Sequence[int]] | None, width: int
) -> Constraints:
    """Return the constraints of the `width` hypotheses of each sentence."""
    forbidden: list[Constraint] = [Suppress(NEVER_GENERATED)]
    if config.no_repeat_ngram:
        forbidden.append(NoRepeatNgram(config.no_repeat_ngram))
    if config.min_len:
        forbidden.append(MinLength(config.min_len))
    forced: list[ForcedToken] = [MaxLength(limits.repeat_interleave(width))]
    if prefixes is not None:
        forced.append(Prefix(Prefix.of(prefixes, limits.device).ids.repeat_interleave(width, dim=0)))
    return Constraints(tuple(forbidden), tuple(forced))
