"""Speculative decoding: a small model drafts tokens, and the large one checks all of them in one pass."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.stack import StackState
from regard.nn.constants import numbers
from regard.search.candidates import candidates, most_likely
from regard.search.greedy import greedy_choice
from regard.search.nested import take_sentences
from regard.search.protocols import SearchStep
from regard.search.run import Search
from regard.search.slots import Slots, append_in_place
from regard.text.vocab import EOS

MOST_ON_CPU = 2
"""Sentences that are decoded with a draft on a CPU. With more, the time goes into arithmetic, which a draft adds to."""


@dataclass(frozen=True)
class DraftedState:
    """The states of both models, which have read the same tokens."""

    model: StackState
    draft: StackState

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "DraftedState":
        return DraftedState(self.model.select(rows, sentences), self.draft.select(rows, sentences))

    def with_room(self, n_tokens: int) -> "DraftedState":
        return DraftedState(self.model.with_room(n_tokens), self.draft.with_room(n_tokens))

    def keep(self, n_tokens: Tensor) -> "DraftedState":
        """Forget all but the first n_tokens [R] tokens of each hypothesis."""
        return DraftedState(self.model.keep(n_tokens), self.draft.keep(n_tokens))


class DraftedModel:
    """A model, and a smaller one that guesses its next tokens."""

    def __init__(self, model: EncoderDecoder, draft: EncoderDecoder) -> None:
        self.model, self.draft = model, draft
        self.members = model, draft
        self.d_model = model.d_model

    def max_target_len(self, batch: Batch) -> Tensor | None:
        return self.model.max_target_len(batch)

    def start(self, batch: Batch) -> DraftedState:
        model, draft = (cast(StackState, member.start(batch)) for member in self.members)
        return DraftedState(model, draft)

    def step(self, state: DraftedState, ids: Tensor) -> tuple[Tensor, DraftedState]:
        """Let both models read one token per row; the log-probabilities are those of the large one."""
        log_probs, after = self.model.step(state.model, ids)
        return log_probs, DraftedState(cast(StackState, after), _read(self.draft, state.draft, ids))


def check_draft(model: object, draft: object) -> None:
    """Refuse a pair of models that cannot decode together; `model` generates the output."""
    for each, name in ((model, "the model"), (draft, "the draft model")):
        if not isinstance(each, EncoderDecoder) or not each.reads_at_once:
            raise UserError(f"a draft needs Transformers with an encoder and a decoder; {name} is not one")
    assert isinstance(model, EncoderDecoder) and isinstance(draft, EncoderDecoder)
    longest, own = draft.max_source_tokens, model.max_source_tokens
    if longest is not None and (own is None or own > longest):
        raise UserError(f"the draft model reads at most {longest:,} tokens, fewer than the model; use another one")


@dataclass
class SpeculativeSearch(Search[DraftedState]):
    """Greedy search in which each step adds between 1 and n_drafted + 1 tokens to every hypothesis.

    The draft proposes the tokens d_1 … d_K. The model reads the last token and all proposals in one pass, and so knows
    what it would choose after each of them. Its choices c_1 … c_{K+1} are kept up to the first that differs from
    the proposal in its place, because the later ones follow a wrong proposal. Sentences of a batch may keep different
    numbers of tokens. The output is that of greedy search with the model alone, whatever the draft proposes.
    """

    n_drafted: int = 1

    @property
    def step_tokens(self) -> int:
        return self.n_drafted + 1

    def step(self, slots: Slots[DraftedState]) -> tuple[Slots[DraftedState], SearchStep | None]:
        """Draft tokens, check them, and keep those that the model would have chosen itself."""
        models = cast(DraftedModel, self.model)
        drafted, draft_state = self._draft(models.draft, slots)
        n, n_new = len(drafted), self.step_tokens
        # There may be no position for tokens after the maximum length, where a hypothesis ends anyway: instead of them,
        # the last token is read again.
        last = (slots.limits - slots.lengths + 1).clamp(0, self.n_drafted)[:, None]
        ids = torch.cat([slots.last, drafted], dim=1).gather(1, numbers(n_new, last.device).minimum(last))
        logits, state = models.model.read_logits(slots.state.model, ids)
        places = _places(slots, n_new)
        log_probs, chosen = (part.view(n, n_new) for part in candidates(places, *logits, greedy_choice))
        slots = replace(slots, state=DraftedState(state, draft_state))
        return _extend(slots, chosen, log_probs, drafted == chosen[:, :-1]), None

    def _draft(self, draft: EncoderDecoder, slots: Slots[DraftedState]) -> tuple[Tensor, StackState]:
        """Return the tokens [N, K] by which the draft extends each hypothesis, and its state after reading them."""
        state, drafted = slots.state.draft, list[Tensor]()
        for _ in range(self.n_drafted):
            h, after = draft.decoder.step(state, slots.last.flatten())
            ids = _propose(slots, draft.output(draft.readout(h)))
            state, tokens = cast(StackState, after), append_in_place(slots.tokens, ids, slots.lengths)
            slots = replace(slots, last=ids, tokens=tokens, lengths=slots.lengths + 1)
            drafted.append(ids)
        return torch.cat(drafted, dim=1), _read(draft, state, slots.last.flatten())

    def _count_tokens(self, slots: Slots[DraftedState], n_steps: int) -> None:
        self._lengths = slots.lengths.cpu().numpy().astype(np.int64)

    @property
    def _key(self) -> Hashable:
        return super()._key, self.n_drafted


def _propose(slots: Slots[Any], logits: Tensor) -> Tensor:
    """Return the most likely next token of each hypothesis that its constraints allow;  logits [N, V] → ids [N, 1]"""
    forced = slots.constraints.forced_ids(slots.lengths)[:, None]
    allowed = slots.constraints.forbid(logits, slots.tokens.flatten(0, 1), slots.lengths)
    return torch.where(forced >= 0, forced, most_likely(allowed, 1))


def _places(slots: Slots[Any], n: int) -> Slots[Any]:
    """Return slots in which each of the next n places of a hypothesis is a hypothesis of its own [N · n, 1]."""
    sentences = numbers(len(slots.lengths), slots.lengths.device)
    spread = take_sentences(replace(slots, state=()), sentences.repeat_interleave(n), len(sentences))
    lengths = slots.lengths[:, None] + numbers(n, slots.lengths.device)
    return replace(spread, lengths=lengths.flatten())


def _extend(slots: Slots[DraftedState], chosen: Tensor, log_probs: Tensor, is_right: Tensor) -> Slots[DraftedState]:
    """Extend each hypothesis by the tokens `chosen` [N, n] up to the first wrong proposal, or up to its end.

    log_probs [N, n]: of the tokens; is_right [N, n − 1]: whether the proposals equal them
    """
    was_open = slots.log_probs > -torch.inf  # [N, 1]
    chosen = torch.where(was_open, chosen, EOS)
    is_end = chosen == EOS
    goes_on = (is_right & ~is_end[:, :-1]).cumprod(1).bool()
    is_new = torch.cat([was_open, goes_on & was_open], dim=1)
    totals = slots.log_probs + log_probs.double().masked_fill(~is_new, 0.0).sum(1, keepdim=True)
    has_ended = (is_new & is_end).any(1, keepdim=True)
    # Not a number: the weights are damaged, and the sentence has no hypothesis.
    done = slots.done | (has_ended | ~(totals > -torch.inf)).squeeze(1)
    n_new = is_new.sum(1)
    lengths = slots.lengths + n_new - has_ended.squeeze(1).long()
    at = slots.lengths[:, None] + numbers(chosen.shape[1], chosen.device)
    tokens = slots.tokens.scatter_(2, at.clamp(max=slots.room)[:, None], chosen[:, None])
    finished = torch.where(has_ended & (totals > -torch.inf), totals, slots.finished.log_probs)
    return replace(
        slots,
        state=slots.state.keep(lengths - 1),
        last=chosen.gather(1, (n_new - 1).clamp(min=0)[:, None]),
        tokens=tokens,
        lengths=lengths,
        log_probs=totals.masked_fill(done[:, None], -torch.inf),
        finished=replace(slots.finished, log_probs=finished),
        done=done,
    )


def _read(model: EncoderDecoder, state: StackState, ids: Tensor) -> StackState:
    """Let a model read one token per row, ids [R], without computing what follows."""
    return cast(StackState, model.decoder.read(state, ids[:, None]))
