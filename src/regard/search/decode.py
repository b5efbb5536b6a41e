"""Decoding options, and the one entry point to every search."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.errors import UserError
from regard.memory import advise_if_full, split_to_fit
from regard.models.inference import MIN_PACKED_WIDTH
from regard.search import speculative
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
from regard.search.coverage import rank_by_coverage
from regard.search.greedy import IndependentSearch
from regard.search.protocols import Hypothesis, Reader, S, StepObserver, Stepper
from regard.search.required_terms import RequiredTerms, TermSearch
from regard.search.run import Search, SearchRule, Sentences
from regard.search.sampling import SampledChoice, SamplingConfig, row_seeds, sample
from regard.search.speculative import DraftedModel, SpeculativeSearch
from regard.search.term_beam import TermBeamSearch
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
    coverage: float = Field(0.0, ge=0.0, le=100.0)
    """β of the coverage penalty, which ranks finished hypotheses of a beam; 0: off."""
    draft_tokens: int = Field(4, ge=1, le=64)
    """With a draft model: tokens that it proposes per step."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU (except for RNNs), fp32 on a CPU."""

    @property
    def is_greedy(self) -> bool:
        return self.beam == 1 and self.sampling is None

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
    terms: TermSearch | None = None,
) -> list[list[Hypothesis]]:
    """Return the n_best hypotheses of each source, best first. `prefixes` are ids that a target must start with.

    `terms` are those that the targets must contain; they need beam search. If no hypothesis has all of them at the
    maximum length, one that lacks some is returned. At most `n_slots` sentences are decoded at once (default: all); the
    others wait until one is done. If memory runs out, the batch is split. With an observer it is not, because the
    observer has already seen steps. A draft model is used in greedy search without an observer, on a CPU for few
    sentences at once; the result is the same with and without it.
    """

    if isinstance(model, DraftedModel):
        n_at_once = min(n_slots or batch.size, batch.size)
        pays = batch.src.device.type != "cpu" or n_at_once <= speculative.MOST_ON_CPU
        model = model if config.is_greedy and observer is None and pays else model.model

    def search(rows: range) -> list[list[Hypothesis]]:
        prefixes_of_rows = None if prefixes is None else prefixes[rows.start : rows.stop]
        terms_of_rows = None if terms is None else terms.select(rows)
        part, n = batch.part(rows), n_slots or len(rows)
        ranks = config.coverage and config.sampling is None and config.beam > 1
        options = config.model_copy(update={"n_best": config.beam}) if ranks else config
        found = _search(model, part, options, prefixes_of_rows, observer, n, terms_of_rows)
        if not ranks:
            return found
        return [row[: config.n_best] for row in rank_by_coverage(model, part, found, config.coverage)]

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
    terms: TermSearch | None,
) -> list[list[Hypothesis]]:
    limits = length_limits(batch.lengths, config, prefixes)
    required = None if terms is None else RequiredTerms.of(terms.rows, batch.src.device)
    if required is not None and config.max_len is None:
        limits = limits + required.n_tokens
    if (model_limits := model.max_target_len(batch)) is not None:
        limits = limits.minimum(model_limits)
    rule = search_rule(config) if terms is None else term_search_rule(config, terms)
    seeds = torch.zeros(batch.size, rule.width, dtype=torch.int64, device=batch.src.device)
    if config.sampling is not None:
        seeds = row_seeds(batch, rule.width, config.sampling.seed)
    constraints = _constraints(config, limits, prefixes, rule.width)
    done = torch.zeros(batch.size, dtype=torch.bool, device=batch.src.device)
    sentences = Sentences(batch.src, constraints, limits, seeds, done, required)
    few = min(n_slots, batch.size) * rule.width <= _FEW_HYPOTHESES
    wide = getattr(model, "d_model", 0) >= MIN_PACKED_WIDTH
    alone = is_narrow(model) or (few and not (wide and threads_wake_quickly()))
    alone = alone and batch.src.device.type == "cpu"
    with captured_steps(model, batch.src.device) as capture, one_thread(alone):
        if isinstance(model, DraftedModel):
            return SpeculativeSearch(model, sentences, rule, n_slots, None, capture, config.draft_tokens).run()
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


def term_search_rule(config: DecodeConfig, terms: TermSearch) -> SearchRule:
    """Return how hypotheses are extended so that they contain terms."""
    check_term_search(config)
    return TermBeamSearch(config.beam, config.n_best, config.length_penalty, terms.edges)


def check_term_search(config: DecodeConfig) -> None:
    """Refuse options that do not go with required terms."""
    if config.sampling is not None:
        raise UserError("required terms need beam search; leave sampling and mbr out")


def sample_tokens(
    model: Stepper[S],
    batch: Batch,
    prefix: Sequence[int],
    max_tokens: int,
    config: SamplingConfig,
    position: int,
    change: Callable[[Tensor], Tensor] = lambda log_probs: log_probs,
) -> Iterator[tuple[int, Tensor]]:
    """Yield up to `max_tokens` tokens that follow the prefix in the one row of the batch, as they are sampled.

    With each token come the log-probabilities [V] that the model gave to it and all others. `position` numbers the
    random draws, so that a text that is continued from its middle gets new ones. `change` is called with the
    log-probabilities [1, V] before each draw; it returns those to sample from.
    """
    seeds = row_seeds(batch, 1, config.seed)[0]
    ids = torch.tensor([[BOS, *prefix]], device=batch.src.device)
    last, state = ids[:, -1], _read(model, batch, ids[:, :-1])
    for i in range(max_tokens):
        log_probs, state = _next_log_probs(model, state, last)
        with torch.inference_mode():
            last = sample(change(log_probs), seeds, torch.full_like(seeds, position + i), config)[0]
        if (token := int(last)) == EOS:
            return
        yield token, log_probs[0]


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
def _next_log_probs(model: Stepper[S], state: S, last: Tensor) -> tuple[Tensor, S]:
    """Read the last token [1]; return the log-probabilities of the next one [1, V], and the state."""
    log_probs, state = model.step(state, last)
    return Suppress(NEVER_GENERATED)(log_probs, last, last), state


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
