"""The tensors of a search: slots, each of which holds the hypotheses of one sentence."""

from dataclasses import dataclass, replace
from typing import Generic, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.search.constraints import Constraints
from regard.search.length_penalty import length_penalty_factor
from regard.search.nested import put_sentences, take_sentences
from regard.search.protocols import FixedState, Hypothesis, S
from regard.search.required_terms import RequiredTerms, TermProgress
from regard.text.vocab import BOS, EOS


@dataclass(frozen=True)
class FinishedHypotheses:
    """Up to k finished hypotheses of each sentence, [N, k]; a score of −∞ where there is none."""

    scores: Tensor
    log_probs: Tensor
    tokens: Tensor
    """[N, k, T]: BOS, the tokens, EOS; what follows has no meaning"""
    counts: Tensor
    """How many have finished in total, [N]"""

    @classmethod
    def none(cls, n: int, k: int, room: int, device: torch.device) -> "FinishedHypotheses":
        empty = torch.full((n, k), -torch.inf, dtype=torch.float64, device=device)
        tokens = torch.full((n, k, room), EOS, device=device)
        return cls(empty, empty.clone(), tokens, torch.zeros(n, dtype=torch.int64, device=device))

    def add(self, scores: Tensor, log_probs: Tensor, tokens: Tensor) -> "FinishedHypotheses":
        """Add candidates [N, c] (score −∞: not finished) with tokens [N, c, T]; keep the best k."""
        best, index = torch.cat([self.scores, scores], dim=1).topk(self.scores.shape[1], dim=1)
        best_log_probs = torch.cat([self.log_probs, log_probs], dim=1).gather(1, index)
        best_tokens = torch.cat([self.tokens, tokens], dim=1).gather(1, _along(index, tokens))
        return FinishedHypotheses(best, best_log_probs, best_tokens, self.counts + (scores > -torch.inf).sum(1))

    def lists(self, sentences: Tensor, n_best: int) -> list[list[Hypothesis]]:
        """Return up to `n_best` hypotheses of each of these sentences, best first."""
        scores, order = self.scores[sentences].topk(n_best, dim=1)
        log_probs = self.log_probs[sentences].gather(1, order)
        tokens = self.tokens[sentences].gather(1, _along(order, self.tokens))
        rows = zip(scores.tolist(), log_probs.tolist(), tokens.tolist(), strict=True)
        return [
            [
                Hypothesis(tuple(ids[1 : ids.index(EOS)]), score, log_prob)
                for score, log_prob, ids in zip(*row, strict=True)
                if score > -torch.inf
            ]
            for row in rows
        ]


@dataclass(frozen=True)
class Slots(Generic[S]):
    """N sentences with k hypotheses each. All shapes stay the same from step to step."""

    state: S
    """The model's state"""
    constraints: Constraints
    last: Tensor
    """[N, k]: the last token of each hypothesis, which the model reads next"""
    tokens: Tensor
    """[N, k, T]: BOS and the tokens so far; what follows has no meaning"""
    lengths: Tensor
    """[N]: number of those tokens"""
    log_probs: Tensor
    """[N, k] of unfinished hypotheses; −∞ where there is none"""
    finished: FinishedHypotheses
    limits: Tensor
    """[N]: most tokens of a hypothesis"""
    seeds: Tensor
    """[N, k]: seeds of sampling"""
    done: Tensor
    """[N] bool: the search of the sentence has ended"""
    required: RequiredTerms | None = None
    """Terms that the outputs must contain"""
    progress: TermProgress | None = None
    """What the hypotheses contain of them"""

    @classmethod
    def start(cls, state: S, constraints: Constraints, limits: Tensor, seeds: Tensor, room: int) -> "Slots[S]":
        """Make slots of hypotheses that consist of BOS only. `state` has N · k rows."""
        (n, k), device = seeds.shape, limits.device
        tokens = torch.full((n, k, room + 1), BOS, device=device)
        log_probs = torch.zeros(n, k, dtype=torch.float64, device=device)
        lengths = torch.ones(n, dtype=torch.int64, device=device)
        finished = FinishedHypotheses.none(n, k, room + 1, device)
        done = torch.zeros(n, dtype=torch.bool, device=device)
        return cls(
            state, constraints, tokens[:, :, 0].clone(), tokens, lengths, log_probs, finished, limits, seeds, done
        ).with_room(room)

    @property
    def room(self) -> int:
        """Tokens that the model can read; a hypothesis can have one more"""
        return self.tokens.shape[2] - 1

    def with_room(self, n_tokens: int) -> "Slots[S]":
        """Return the slots with room for so many tokens, which may be more or fewer than before."""
        more = n_tokens - self.room
        tokens, finished = (F.pad(tokens, (0, more), value=EOS) for tokens in (self.tokens, self.finished.tokens))
        state = self.state.with_room(n_tokens) if isinstance(self.state, FixedState) else self.state
        return replace(self, state=state, tokens=tokens, finished=replace(self.finished, tokens=finished))

    def rows(self, per_sentence: Tensor) -> Tensor:
        """[N] → [N · k]: repeat for every hypothesis"""
        return per_sentence[:, None].expand(self.log_probs.shape).flatten()

    def lengths_factor(self, alpha: float) -> Tensor:
        """[N, 1]: length penalty of a hypothesis that ends with the next token"""
        return torch.as_tensor(length_penalty_factor(self.lengths, alpha))[:, None]

    def select(self, sentences: Tensor) -> "Slots[S]":
        """Keep some sentences."""
        n, k, _ = self.tokens.shape
        rows = (sentences[:, None] * k + torch.arange(k, device=sentences.device)).flatten()
        state = self.state.select(rows, sentences)
        without_state = replace(self, state=cast(S, ()))
        return replace(take_sentences(without_state, sentences, n), state=state)

    def put(self, sentences: Tensor, new: "Slots[S]") -> "Slots[S]":
        """Replace some sentences by new ones, in place."""
        return put_sentences(self, sentences, len(self.done), new)


def append_in_place(tokens: Tensor, ids: Tensor, lengths: Tensor) -> Tensor:
    """Write ids [N, k] at position lengths [N] of tokens [N, k, T].

    A sentence that has been collected may be longer than T, if only shorter ones are left; it may write anywhere.
    """
    at = lengths.clamp(max=tokens.shape[2] - 1)
    return tokens.scatter_(2, at[:, None, None].expand(*ids.shape, 1), ids[:, :, None])


def append_tokens(tokens: Tensor, parents: Tensor, ids: Tensor, lengths: Tensor) -> Tensor:
    """Extend hypotheses `parents` [N, c] of tokens [N, k, T] by ids [N, c] at position lengths [N] → [N, c, T]"""
    return append_in_place(tokens.gather(1, _along(parents, tokens)), ids, lengths)


def _along(index: Tensor, tokens: Tensor) -> Tensor:
    """Expand an index [N, c] to gather rows of tokens [N, k, T]."""
    return index[:, :, None].expand(-1, -1, tokens.shape[2])
