"""Ensembles: several models with one vocabulary decode together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.search.protocols import State, Stepper

Member = TypeVar("Member", bound=Stepper[Any])


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members."""

    members: tuple[State, ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "EnsembleState":
        return EnsembleState(tuple(state.select(rows, sentences) for state in self.members))

    def with_room(self, n_tokens: int) -> "EnsembleState":
        """Return the states of all members with room for so many tokens."""
        return EnsembleState(tuple(state.with_room(n_tokens) for state in self.members))  # type: ignore[attr-defined]


class Ensemble(Generic[Member]):
    """Averages the next-token probabilities of its members."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = tuple(members)

    def max_target_len(self, batch: Batch) -> Tensor | None:
        limits = [limit for member in self.members if (limit := member.max_target_len(batch)) is not None]
        return torch.stack(limits).amin(0) if limits else None

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
