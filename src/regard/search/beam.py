"""Beam search: extend the k best hypotheses of each sentence in parallel."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.nn.constants import numbers
from regard.search.candidates import candidates, most_likely
from regard.search.length_penalty import length_penalty_factor
from regard.search.protocols import Hypothesis, S, SearchStep
from regard.search.required_terms import TermProgress
from regard.search.slots import Slots, append_tokens
from regard.text.vocab import EOS


class Extensions(NamedTuple):
    """[N, c] continuations of the hypotheses of each sentence, in the order in which they enter the beam"""

    log_probs: Tensor
    """Of the whole hypothesis"""
    parents: Tensor
    """The hypothesis that is continued"""
    ids: Tensor
    """The token that continues it"""
    progress: TermProgress | None = None
    """With required terms"""


@dataclass(frozen=True)
class BeamSearch:
    """A sentence is done when k hypotheses have finished and no unfinished one can still get into the n_best."""

    width: int
    n_best: int
    alpha: float
    """Of the length penalty"""

    def begin(self, slots: Slots[S]) -> Slots[S]:
        """All k hypotheses are the same empty one. Only one counts, otherwise the beam would fill with copies."""
        log_probs = torch.full_like(slots.log_probs, -torch.inf)
        log_probs[:, 0] = 0.0
        return replace(slots, log_probs=log_probs)

    def advance(
        self, slots: Slots[S], logits: Tensor, log_sums: Tensor, observed: bool
    ) -> tuple[Slots[S], SearchStep | None]:
        """Advance by one step, given logits [N·k, V] of the next token and their log-sums.

        Of the k best continuations those that end are finished. Lower-ranked ones fill their slots until k hypotheses
        have finished; from then on the beam only shrinks (with k = 1 this is greedy search).
        """
        k = slots.log_probs.shape[1]
        top, parents, ids, progress = self._extend(slots, logits, log_sums)
        tokens = append_tokens(slots.tokens, parents, ids, slots.lengths)

        first_k = numbers(top.shape[1], top.device) < k
        is_end = ids == EOS
        scores = (top / slots.lengths_factor(self.alpha)).masked_fill(~(is_end & first_k), -torch.inf)
        finished = slots.finished.add(scores, top, tokens)

        may_continue = first_k | (finished.counts < k)[:, None]
        best, order = self._keep(top.masked_fill(is_end | ~may_continue, -torch.inf), min(k, top.shape[1]))
        done = slots.done | self._is_done(best, finished.scores, finished.counts, slots.limits)
        step = _as_step(top, parents, ids, best, order) if observed else None
        slots = replace(
            slots,
            state=self._reorder(slots, parents.gather(1, order)),
            last=ids.gather(1, order),
            tokens=tokens.gather(1, order[:, :, None].expand(-1, -1, tokens.shape[2])),
            lengths=slots.lengths + ~done,
            log_probs=best.masked_fill(done[:, None], -torch.inf),  # nothing follows
            finished=finished,
            done=done,
            progress=None if progress is None else progress.select(order),
        )
        return slots, step

    def hypotheses(self, slots: Slots[S], sentences: Tensor) -> list[list[Hypothesis]]:
        """Return the n_best finished hypotheses of some sentences, best first."""
        return slots.finished.lists(sentences, self.n_best)

    def _extend(self, slots: Slots[S], logits: Tensor, log_sums: Tensor) -> Extensions:
        """Return the best 2k continuations of each sentence, best first."""
        n, k = slots.log_probs.shape
        # They are among the best 2k of each of its hypotheses.
        row_top, row_ids = candidates(slots, logits, log_sums, self._most_likely)
        c = row_top.shape[1]
        totals = (slots.log_probs[:, :, None] + row_top.view(n, k, c)).flatten(1)
        top, index = totals.topk(min(2 * k, totals.shape[1]), dim=1)
        return Extensions(top, index // c, row_ids.view(n, k * c).gather(1, index))

    def _keep(self, log_probs: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities and the places [N, k] of those of [N, c] continuations that stay in the beam."""
        best, order = log_probs.topk(k, dim=1)
        return best, order

    def _most_likely(self, log_probs: Tensor, slots: Slots[Any]) -> Tensor:
        return most_likely(log_probs, 2 * self.width)

    def _is_done(self, best: Tensor, scores: Tensor, counts: Tensor, limits: Tensor) -> Tensor:
        """[N]: no hypothesis is left, or k have finished and none that is left can get into the n_best

        The log-probability of a hypothesis cannot rise, and the length penalty is largest at the maximum length.
        """
        still_possible = best.amax(1) / length_penalty_factor(limits + 1, self.alpha)
        hopeless = still_possible <= scores[:, self.n_best - 1]
        return ~(best.amax(1) > -torch.inf) | ((counts >= self.width) & hopeless)

    def _reorder(self, slots: Slots[S], parents: Tensor) -> S:
        sentences = numbers(len(parents), parents.device)
        rows = (sentences[:, None] * slots.log_probs.shape[1] + parents).flatten()
        return slots.state.select(rows, sentences)


def _as_step(top: Tensor, parents: Tensor, ids: Tensor, best: Tensor, order: Tensor) -> SearchStep:
    """Describe a step, in which the candidates `order` [N, k] stay in the beam where best [N, k] is not −∞."""
    slots = numbers(order.shape[1], order.device).expand_as(order).masked_fill(best == -torch.inf, -1)
    new_slots = torch.full_like(ids, -1).scatter(1, order, slots)
    return SearchStep(numbers(len(ids), ids.device), top, parents, ids, new_slots)
