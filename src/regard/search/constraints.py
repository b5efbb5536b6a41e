"""Constraints on the next token: forbidden tokens (log-probability −∞) and forced tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from regard.text.vocab import EOS


class Constraint(Protocol):
    """Forbids tokens."""

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """log_probs [R, V] after tokens [R, t] (BOS first) → the same with −∞ for forbidden tokens"""
        ...

    def select(self, rows: Tensor) -> Self: ...


class ForcedToken(Protocol):
    """Forces the next token."""

    def __call__(self, tokens: Tensor) -> Tensor:
        """tokens [R, t] → [R]: the id that must come next, or −1 where any token may"""
        ...

    def select(self, rows: Tensor) -> Self: ...


@dataclass(frozen=True)
class Suppress:
    """Ids that are never generated, such as padding."""

    ids: tuple[int, ...]

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(1, torch.tensor(self.ids, device=log_probs.device), -torch.inf)

    def select(self, rows: Tensor) -> Self:
        return self


@dataclass(frozen=True)
class MinLength:
    """No end before n tokens"""

    n: int

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        return Suppress((EOS,))(log_probs, tokens) if tokens.shape[1] - 1 < self.n else log_probs

    def select(self, rows: Tensor) -> Self:
        return self


@dataclass(frozen=True)
class NoRepeatNgram:
    """No sequence of n tokens occurs twice in a hypothesis."""

    n: int

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        generated = tokens[:, 1:]
        if generated.shape[1] < self.n:
            return log_probs
        ngrams = generated.unfold(1, self.n, 1)  # [R, t − n + 1, n]
        tail = generated[:, generated.shape[1] - self.n + 1 :]  # the last n − 1 tokens
        rows, positions = (ngrams[:, :, :-1] == tail[:, None]).all(-1).nonzero(as_tuple=True)
        log_probs = log_probs.clone()
        log_probs[rows, ngrams[rows, positions, -1]] = -torch.inf
        return log_probs

    def select(self, rows: Tensor) -> Self:
        return self


@dataclass(frozen=True)
class MaxLength:
    """Row r ends after at most limits[r] tokens."""

    limits: Tensor

    def __call__(self, tokens: Tensor) -> Tensor:
        return torch.where(self.limits <= tokens.shape[1] - 1, EOS, -1)

    def select(self, rows: Tensor) -> "MaxLength":
        return MaxLength(self.limits.index_select(0, rows))


@dataclass(frozen=True)
class Prefix:
    """Row r starts with ids[r]; −1 marks positions after the end of its prefix."""

    ids: Tensor

    @classmethod
    def of(cls, prefixes: Sequence[Sequence[int]], device: torch.device) -> "Prefix":
        width = max((len(p) for p in prefixes), default=0)
        rows = [[*p, *[-1] * (width - len(p))] for p in prefixes]
        return cls(torch.tensor(rows, dtype=torch.int64, device=device).view(len(prefixes), width))

    def __call__(self, tokens: Tensor) -> Tensor:
        position = tokens.shape[1] - 1
        if position < self.ids.shape[1]:
            return self.ids[:, position]
        return torch.full_like(tokens[:, 0], -1)

    def select(self, rows: Tensor) -> "Prefix":
        return Prefix(self.ids.index_select(0, rows))


@dataclass(frozen=True)
class Constraints:
    """All constraints together. A forced token overrules a forbidden one, a later forced token an earlier one."""

    forbidden: tuple[Constraint, ...] = ()
    forced: tuple[ForcedToken, ...] = ()

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        allowed = log_probs
        for constraint in self.forbidden:
            allowed = constraint(allowed, tokens)
        stuck = (allowed == -torch.inf).all(1, keepdim=True)  # if everything is forbidden, the hypothesis ends
        allowed = torch.where(stuck, _only(log_probs, torch.full_like(tokens[:, 0], EOS)), allowed)
        for force in self.forced:
            ids = force(tokens)
            allowed = torch.where((ids >= 0)[:, None], _only(log_probs, ids.clamp(min=0)), allowed)
        return allowed

    def select(self, rows: Tensor) -> "Constraints":
        return Constraints(
            tuple(constraint.select(rows) for constraint in self.forbidden),
            tuple(force.select(rows) for force in self.forced),
        )


def _only(log_probs: Tensor, ids: Tensor) -> Tensor:
    """Keep the log-probability of one id per row; all others become −∞."""
    log_prob = log_probs.gather(1, ids[:, None])
    return torch.full_like(log_probs, -torch.inf).scatter(1, ids[:, None], log_prob)
