"""Log-probabilities of the single tokens of an output, and of the most likely tokens in their places."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.search.protocols import S, Stepper
from regard.text.vocab import BOS, EOS, PAD


@dataclass(frozen=True)
class TokenScore:
    id: int
    log_prob: float
    """Given all tokens before it"""
    top: tuple[tuple[int, float], ...] = ()
    """The most likely ids in its place with their log-probabilities, the most likely first"""

    @classmethod
    def of(cls, token: int, log_probs: Tensor, n_top: int) -> "TokenScore":
        """log_probs [V]"""
        best = log_probs.topk(min(n_top, len(log_probs)))
        top = tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        return cls(token, float(log_probs[token]), top)


@torch.inference_mode()
def score_targets(
    model: Stepper[S], batch: Batch, targets: Sequence[Sequence[int]], n_top: int
) -> list[list[TokenScore]]:
    """Return the scores of the tokens of each target, and of EOS after them."""
    rows = [[*target, EOS] for target in targets]
    width = max(map(len, rows), default=0)
    padded = torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device=batch.src.device)
    last, state = torch.full((len(rows),), BOS, device=batch.src.device), model.start(batch)
    scores: list[list[TokenScore]] = [[] for _ in rows]
    for t in range(width):
        log_probs, state = model.step(state, last)
        last = padded[:, t]
        for row, ids, row_log_probs in zip(scores, rows, log_probs, strict=True):
            if t < len(ids):
                row.append(TokenScore.of(ids[t], row_log_probs, n_top))
    return scores
