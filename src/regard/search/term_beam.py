"""Beam search for outputs that contain required terms (dynamic beam allocation, Post and Vilar 2018)."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.nn.constants import numbers
from regard.search.beam import BeamSearch, Extensions
from regard.search.candidates import candidates, most_likely
from regard.search.protocols import S
from regard.search.required_terms import TermProgress, TokenEdges
from regard.search.slots import Slots
from regard.text.vocab import EOS

_NO_BANK = 1 << 30  # of what does not exist


@dataclass(frozen=True)
class TermBeamSearch(BeamSearch):
    """Beam search in which a hypothesis ends only when it contains all terms. Without terms it is plain beam search.

    Hypotheses also continue with the next tokens of missing terms. A bank is all continuations for which equally many
    tokens are still required; the beam is shared among the banks, because hypotheses with fewer required tokens would
    lose against those that put them off.
    """

    edges: TokenEdges

    def begin(self, slots: Slots[S]) -> Slots[S]:
        slots = super().begin(slots)
        assert slots.required is not None
        return replace(slots, progress=TermProgress.none(slots.required, self.width))

    def _extend(self, slots: Slots[S], logits: Tensor, log_sums: Tensor) -> Extensions:
        """Return 2k continuations of each sentence, in the order in which they enter the beam."""
        n, k = slots.log_probs.shape
        required, progress = slots.required, slots.progress
        assert required is not None and progress is not None
        row_top, row_ids = candidates(slots, logits, log_sums, self._with_terms)
        row_top = row_top.masked_fill(_is_repeated(row_ids, min(2 * k, logits.shape[1])), -torch.inf)
        c = row_top.shape[1]
        totals = (slots.log_probs[:, :, None] + row_top.view(n, k, c)).flatten(1)
        ids, parents = row_ids.view(n, k * c), (numbers(k * c, row_ids.device) // c).expand(n, -1)
        after = progress.select(parents).read(required, slots.last.gather(1, parents), ids, self.edges)
        remaining = after.n_remaining(required)
        totals = _without_early_ends(totals, (ids == EOS) & (remaining > 0), slots.finished.counts)
        index = _order_by_banks(totals, remaining)[:, : 2 * k]
        return Extensions(totals.gather(1, index), parents.gather(1, index), ids.gather(1, index), after.select(index))

    def _keep(self, log_probs: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Keep the first k; the banks have been taken into account in the order of the continuations."""
        place = numbers(log_probs.shape[1], log_probs.device)
        last = torch.where(log_probs == -torch.inf, place + len(place), place)
        order = last.topk(k, dim=1, largest=False).indices
        return log_probs.gather(1, order), order

    def _with_terms(self, log_probs: Tensor, slots: Slots[Any]) -> Tensor:
        """Return the ids of the most likely tokens, of those that terms need next, and of one that ends a word."""
        assert slots.required is not None and slots.progress is not None
        likely = most_likely(log_probs, 2 * self.width)
        needed = slots.progress.next_ids(slots.required).flatten(0, 1)
        in_word = self.edges.starts_with_letter | self.edges.starts_with_mark
        ending = log_probs.masked_fill(in_word, -torch.inf).argmax(1, keepdim=True)
        return torch.cat([likely, torch.where(needed < 0, likely[:, :1], needed), ending], dim=1)


def _is_repeated(ids: Tensor, n_first: int) -> Tensor:
    """[R, c] bool: whether an id is not among the first `n_first` and occurs further to the left"""
    place = numbers(ids.shape[1], ids.device)
    is_same = (ids[:, n_first:, None] == ids[:, None]) & (place[n_first:, None] > place)
    return torch.cat([torch.zeros_like(ids[:, :n_first], dtype=torch.bool), is_same.any(2)], dim=1)


def _without_early_ends(totals: Tensor, is_early: Tensor, n_finished: Tensor) -> Tensor:
    """Remove ends [N, c] before all terms have occurred, unless nothing else is left, as at the maximum length."""
    others = totals.masked_fill(is_early, -torch.inf)
    is_stuck = (others.amax(1) == -torch.inf) & (n_finished == 0)
    return torch.where(is_stuck[:, None], totals, others)


def _order_by_banks(totals: Tensor, remaining: Tensor) -> Tensor:
    """Return the order [N, c] in which continuations enter the beam.

    First the best one of each bank, then the second best ones, and so on; among them, those that need fewest tokens
    first, so that every step brings the search closer to outputs with all terms.
    """
    place = numbers(totals.shape[1], totals.device)
    by_score = totals.sort(dim=1, descending=True, stable=True)
    bank = torch.where(by_score.values > -torch.inf, remaining.gather(1, by_score.indices), _NO_BANK)
    by_bank = bank.sort(dim=1, stable=True)
    is_first = by_bank.values != torch.cat([by_bank.values[:, :1] - 1, by_bank.values[:, :-1]], dim=1)
    rank = place - torch.where(is_first, place, 0).cummax(1).values
    rank = torch.where(by_bank.values == _NO_BANK, len(place), rank)
    order = (rank * (_NO_BANK + 1) + by_bank.values).argsort(dim=1)
    return by_score.indices.gather(1, by_bank.indices.gather(1, order))
