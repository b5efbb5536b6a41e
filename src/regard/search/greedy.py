"""One hypothesis a row, a token at a time: the likeliest (greedy) or a drawn one (sampling)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.search.constraints import Constraints
from regard.search.length_penalty import normalised
from regard.search.protocols import Hypothesis, SearchStep, Stepper, Watcher
from regard.text.vocab import BOS, EOS


class TokenChoice(Protocol):
    """How the next token is taken from its log-probabilities."""

    def __call__(self, log_probs: Tensor, place: int) -> Tensor:
        """log_probs [R, V] of the place-th token → ids [R]"""
        ...

    def select(self, rows: Tensor) -> Self: ...


@dataclass(frozen=True)
class GreedyChoice:
    def __call__(self, log_probs: Tensor, place: int) -> Tensor:
        return log_probs.argmax(-1)

    def select(self, rows: Tensor) -> Self:
        return self


@dataclass(frozen=True)
class SampledChoice:
    """Sampling with temperature, among the top_k tokens and the fewest that hold top_p of the probability.

    `seeds` [R] belong to the rows, so that a sentence draws the same whatever stands beside it.
    """

    seeds: tuple[int, ...]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __call__(self, log_probs: Tensor, place: int) -> Tensor:
        ranked, ids = filtered(log_probs, self.temperature, self.top_k, self.top_p).sort(-1, descending=True)
        cumulative = ranked.cumsum(-1)
        draws = [np.random.Generator(np.random.Philox(key=[seed, place])).random() for seed in self.seeds]
        u = torch.tensor(draws, device=ranked.device, dtype=ranked.dtype)[:, None] * cumulative[:, -1:]
        index = torch.searchsorted(cumulative, u, right=True)
        last = (ranked > 0).sum(-1, keepdim=True) - 1  # rounding must not reach what was filtered out
        return ids.gather(1, index.minimum(last)).squeeze(1)

    def select(self, rows: Tensor) -> "SampledChoice":
        seeds = tuple(self.seeds[i] for i in rows.tolist())
        return SampledChoice(seeds, self.temperature, self.top_k, self.top_p)


def filtered(log_probs: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Probabilities [R, V] after temperature, with those outside top-k and top-p set to 0; not re-normalised."""
    probs = (log_probs.double() / temperature).softmax(-1)
    ranked, ids = probs.sort(-1, descending=True)
    outside = (ranked.cumsum(-1) - ranked) >= top_p
    if top_k:
        outside[:, top_k:] = True
    outside[:, 0] = False
    return torch.zeros_like(probs).scatter(1, ids, ranked.masked_fill(outside, 0.0))


@torch.inference_mode()
def follow(
    model: Stepper,
    batch: Batch,
    constraints: Constraints,
    choose: TokenChoice,
    length_penalty: float,
    watch: Watcher | None = None,
) -> list[Hypothesis]:
    """Extend every row of the batch until it ends, or the watcher gives it up. `constraints` must bound the length."""
    state = model.start(batch)
    n = batch.size
    tokens = torch.full((n, 1), BOS, device=batch.src.device)
    total = torch.zeros(n, dtype=torch.float64, device=batch.src.device)
    rows = torch.arange(n, device=batch.src.device)
    found: list[Hypothesis | None] = [None] * n
    while len(rows):
        log_probs, state = model.step(state, tokens[:, -1])
        log_probs = constraints(log_probs, tokens)
        ids = choose(log_probs, tokens.shape[1] - 1)
        total = total + log_probs.gather(1, ids[:, None]).squeeze(1)
        tokens = torch.cat([tokens, ids[:, None]], dim=1)
        ended = ids == EOS
        if watch is not None and (given_up := watch(_seen(rows, total, ids))) is not None:
            ended = ended | given_up
        if ended.any():
            for row, said, log_prob in zip(
                rows[ended].tolist(), tokens[ended].tolist(), total[ended].tolist(), strict=True
            ):
                score = normalised(log_prob, len(said) - 1, length_penalty)
                found[row] = Hypothesis(tuple(i for i in said[1:] if i != EOS), score, log_prob)
            keep = (~ended).nonzero().squeeze(1)
            state, constraints, choose = state.select(keep), constraints.select(keep), choose.select(keep)
            rows, tokens, total = rows[keep], tokens[keep], total[keep]
    return _all(found)


def _seen(rows: Tensor, total: Tensor, ids: Tensor) -> SearchStep:
    """A step of one hypothesis a row as a beam of one"""
    first = torch.zeros_like(ids)[:, None]
    return SearchStep(rows, total[:, None], first, ids[:, None], first.masked_fill(ids[:, None] == EOS, -1))


def _all(found: Sequence[Hypothesis | None]) -> list[Hypothesis]:
    assert None not in found
    return [hypothesis for hypothesis in found if hypothesis is not None]
