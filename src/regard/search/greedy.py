"""Hypotheses that do not compete: each is extended by its most likely token (greedy search) or by a sampled one."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.nn.constants import numbers
from regard.search.candidates import TokenChoice, candidates, most_likely
from regard.search.length_penalty import normalise_score
from regard.search.protocols import Hypothesis, S, SearchStep
from regard.search.slots import Slots, append_in_place
from regard.text.vocab import EOS


def greedy_choice(log_probs: Tensor, slots: Slots[Any]) -> Tensor:
    """Return the most likely token of each row [R, 1]."""
    return most_likely(log_probs, 1)


@dataclass(frozen=True)
class IndependentSearch:
    """Extends each of the k hypotheses of a sentence by one token; the sentence is done when all have ended."""

    width: int
    n_best: int
    alpha: float
    """Of the length penalty"""
    choose: TokenChoice = greedy_choice

    def begin(self, slots: Slots[S]) -> Slots[S]:
        return slots

    def advance(
        self, slots: Slots[S], logits: Tensor, log_sums: Tensor, observed: bool
    ) -> tuple[Slots[S], SearchStep | None]:
        """Advance by one step, given logits [N·k, V] of the next token and their log-sums."""
        n, k = slots.log_probs.shape
        choice_log_probs, ids = (part.view(n, k) for part in candidates(slots, logits, log_sums, self.choose))
        totals = slots.log_probs + choice_log_probs
        was_open = totals > -torch.inf
        # The end of a hypothesis is written again and again until the sentence has been collected.
        ids = torch.where(was_open, ids, EOS)
        is_end = ids == EOS
        ends = is_end & was_open
        going_on = totals.masked_fill(is_end, -torch.inf)
        done = slots.done | (going_on.amax(1) == -torch.inf)
        step = SearchStep(*self._observed(totals, ids)) if observed else None
        slots = replace(
            slots,
            last=ids,
            tokens=append_in_place(slots.tokens, ids, slots.lengths),
            lengths=slots.lengths + ~done,
            log_probs=going_on,
            finished=replace(slots.finished, log_probs=torch.where(ends, totals, slots.finished.log_probs)),
            done=done,
        )
        return slots, step

    def hypotheses(self, slots: Slots[S], sentences: Tensor) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of some sentences, best first."""
        log_probs, tokens = slots.finished.log_probs[sentences].tolist(), slots.tokens[sentences].tolist()
        found = [
            [self._hypothesis(ids, total) for ids, total in zip(*row, strict=True) if total > -torch.inf]
            for row in zip(tokens, log_probs, strict=True)
        ]
        return [sorted(row, key=lambda hypothesis: -hypothesis.score) for row in found]

    def _hypothesis(self, tokens: list[int], log_prob: float) -> Hypothesis:
        end = tokens.index(EOS)
        return Hypothesis(tuple(tokens[1:end]), normalise_score(log_prob, end, self.alpha), log_prob)

    def _observed(self, totals: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        n, k = ids.shape
        own = numbers(k, ids.device).expand(n, k)
        return numbers(n, ids.device), totals, own, ids, own.masked_fill(ids == EOS, -1)
