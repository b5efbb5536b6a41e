"""One hypothesis per row, one token at a time: the most likely token (greedy) or a sampled one."""

from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.search.constraints import Constraints
from regard.search.length_penalty import normalise_score
from regard.search.protocols import Hypothesis, S, SearchStep, StepObserver, Stepper
from regard.text.vocab import BOS, EOS


class TokenChoice(Protocol):
    """Chooses the next token from its log-probabilities."""

    def __call__(self, log_probs: Tensor, position: int) -> Tensor:
        """log_probs [R, V] of the token at `position` → ids [R]"""
        ...

    def select(self, rows: Tensor) -> Self: ...


@dataclass(frozen=True)
class GreedyChoice:
    """Chooses the most likely token."""

    def __call__(self, log_probs: Tensor, position: int) -> Tensor:
        return log_probs.argmax(-1)

    def select(self, rows: Tensor) -> Self:
        return self


@torch.inference_mode()
def decode_rows(
    model: Stepper[S],
    batch: Batch,
    constraints: Constraints,
    choose: TokenChoice,
    length_penalty: float,
    observer: StepObserver | None = None,
) -> list[Hypothesis]:
    """Extend every row of the batch until it ends or the observer stops it. `constraints` must limit the length."""
    state = model.start(batch)
    n = batch.size
    tokens = torch.full((n, 1), BOS, device=batch.src.device)
    total = torch.zeros(n, dtype=torch.float64, device=batch.src.device)
    rows = torch.arange(n, device=batch.src.device)
    hypotheses: dict[int, Hypothesis] = {}
    while len(rows):
        log_probs, state = model.step(state, tokens[:, -1])
        log_probs = constraints(log_probs, tokens)
        ids = choose(log_probs, tokens.shape[1] - 1)
        total = total + log_probs.gather(1, ids[:, None]).squeeze(1)
        tokens = torch.cat([tokens, ids[:, None]], dim=1)
        ended = ids == EOS
        if observer is not None and (stopped := observer(_as_step(rows, total, ids))) is not None:
            ended = ended | stopped
        if ended.any():
            for row, sequence, log_prob in zip(
                rows[ended].tolist(), tokens[ended].tolist(), total[ended].tolist(), strict=True
            ):
                score = normalise_score(log_prob, len(sequence) - 1, length_penalty)
                hypotheses[row] = Hypothesis(tuple(i for i in sequence[1:] if i != EOS), score, log_prob)
            keep = (~ended).nonzero().squeeze(1)
            state, constraints, choose = state.select(keep), constraints.select(keep), choose.select(keep)
            rows, tokens, total = rows[keep], tokens[keep], total[keep]
    return [hypotheses[row] for row in range(n)]


def _as_step(rows: Tensor, total: Tensor, ids: Tensor) -> SearchStep:
    """Describe a step with one hypothesis per row as a beam of width 1."""
    first = torch.zeros_like(ids)[:, None]
    return SearchStep(rows, total[:, None], first, ids[:, None], first.masked_fill(ids[:, None] == EOS, -1))
