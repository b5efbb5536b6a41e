"""The seam between model and search: start, step, select."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.data.batch import Batch


class State(Protocol):
    """What a model remembers between steps, one row a hypothesis."""

    def select(self, rows: Tensor) -> "State":
        """The state of the hypotheses `rows`, in that order; a row may be taken several times."""
        ...


class Stepper(Protocol):
    """Anything that search can decode with: a model, an ensemble, a table of probabilities."""

    def room(self, batch: Batch) -> Tensor | None:
        """[B]: tokens that each target can have at most; None: any number"""
        ...

    def start(self, batch: Batch) -> Any:
        """A State with one row a sentence, before the first token."""
        ...

    def step(self, state: Any, ids: Tensor) -> tuple[Tensor, Any]:
        """Read ids [R] → log-probabilities of the next token [R, V], and the state after."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """Ids without BOS and EOS; `score` is the length-normalised log-probability."""

    ids: tuple[int, ...]
    score: float
    log_prob: float


@dataclass(frozen=True)
class SearchStep:
    """What one step of a search saw: [N, c] continuations of each sentence that is still decoded, best first."""

    sentences: Tensor
    """[N]: which of the batch they are"""
    log_probs: Tensor
    """[N, c] of the whole hypothesis; −∞: there is none"""
    parents: Tensor
    """[N, c]: the place that the hypothesis grew from"""
    ids: Tensor
    """[N, c]: the token that it grew by"""
    places: Tensor
    """[N, c]: the place that it has from now on; −1: it ended, or is given up"""


class Watcher(Protocol):
    """Sees every step of a search, and may end the search of sentences that nobody waits for any more."""

    def __call__(self, seen: SearchStep) -> Tensor | None:
        """[N] bool: those to give up; None: none"""
        ...


@dataclass(frozen=True)
class Renumbered:
    """Shows the steps to one who knows the sentences by other numbers."""

    watch: Watcher
    numbers: Tensor

    def __call__(self, seen: SearchStep) -> Tensor | None:
        return self.watch(replace(seen, sentences=self.numbers.to(seen.sentences.device)[seen.sentences]))


@dataclass(frozen=True)
class EnsembleState:
    members: tuple[State, ...]

    def select(self, rows: Tensor) -> "EnsembleState":
        return EnsembleState(tuple(state.select(rows) for state in self.members))


class Ensemble:
    """Several models with one vocabulary that vote: p = mean of their p."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        self.members = tuple(members)

    def room(self, batch: Batch) -> Tensor | None:
        rooms = [room for member in self.members if (room := member.room(batch)) is not None]
        return torch.stack(rooms).amin(0) if rooms else None

    def start(self, batch: Batch) -> EnsembleState:
        return EnsembleState(tuple(member.start(batch) for member in self.members))

    def step(self, state: EnsembleState, ids: Tensor) -> tuple[Tensor, EnsembleState]:
        steps = [member.step(s, ids) for member, s in zip(self.members, state.members, strict=True)]
        if len(steps) == 1:
            log_probs = steps[0][0]
        else:
            log_probs = torch.stack([log_probs for log_probs, _ in steps]).logsumexp(0)
            log_probs = log_probs - torch.tensor(float(len(steps))).log()
        return log_probs, EnsembleState(tuple(after for _, after in steps))
