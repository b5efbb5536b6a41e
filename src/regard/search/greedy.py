"""Hypotheses that do not compete: each is extended by its most likely token (greedy search) or by a sampled one."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.search.candidates import TokenChoice, candidates
from regard.search.protocols import S, SearchStep
from regard.search.slots import FinishedHypotheses, Slots, append_tokens
from regard.text.vocab import EOS


def most_likely(log_probs: Tensor, slots: Slots[Any]) -> Tensor:
    """Greedy search: the most likely token [R, 1]"""
    return log_probs.argmax(-1, keepdim=True)


@dataclass(frozen=True)
class IndependentSearch:
    """Extends each of the k hypotheses of a sentence by one token; the sentence is done when all have ended."""

    width: int
    n_best: int
    alpha: float
    """Of the length penalty"""
    choose: TokenChoice = most_likely

    def begin(self, slots: Slots[S]) -> Slots[S]:
        return slots

    def advance(self, slots: Slots[S], log_probs: Tensor) -> tuple[Slots[S], SearchStep]:
        """Advance by one step, given log_probs [N·k, V] of the next token."""
        n, k = slots.log_probs.shape
        choice_log_probs, ids = (part.view(n, k) for part in candidates(slots, log_probs, self.choose))
        totals = slots.log_probs + choice_log_probs  # −∞ where the hypothesis has ended
        own = torch.arange(k, device=ids.device).expand(n, k)
        tokens = append_tokens(slots.tokens, own, ids, slots.lengths)
        ends = (ids == EOS) & (totals > -torch.inf)
        finished = self._finish(slots, ends, totals, tokens)
        going_on = totals.masked_fill(ids == EOS, -torch.inf)
        done = slots.done | ~(going_on > -torch.inf).any(1)
        sentences = torch.arange(n, device=ids.device)
        step = SearchStep(sentences, totals, own, ids, own.masked_fill(ids == EOS, -1))
        slots = replace(
            slots,
            tokens=tokens,
            lengths=slots.lengths + ~done,
            log_probs=going_on.masked_fill(done[:, None], -torch.inf),
            finished=finished,
            done=done,
        )
        return slots, step

    def _finish(self, slots: Slots[S], ends: Tensor, totals: Tensor, tokens: Tensor) -> FinishedHypotheses:
        """Hypothesis i finishes in place i."""
        before = slots.finished
        return FinishedHypotheses(
            torch.where(ends, totals / slots.lengths_factor(self.alpha), before.scores),
            torch.where(ends, totals, before.log_probs),
            torch.where(ends[:, :, None], tokens, before.tokens),
            before.counts + ends.sum(1),
        )
