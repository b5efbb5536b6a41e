"""What a hypothesis may say next (log-probabilities of the forbidden become −∞), and what it must say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from regard.text.vocab import EOS


class Constraint(Protocol):
    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """log_probs [R, V] after tokens [R, t] (BOS first) → the same with −∞ where it may not go"""
        ...

    def select(self, rows: Tensor) -> Self: ...


class Demand(Protocol):
    def __call__(self, tokens: Tensor) -> Tensor:
        """tokens [R, t] → the id that each row must say next, or −1 where it is free, [R]"""
        ...

    def select(self, rows: Tensor) -> Self: ...


@dataclass(frozen=True)
class Suppress:
    """Ids that are never said, such as padding."""

    ids: tuple[int, ...]

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(1, torch.tensor(self.ids, device=log_probs.device), -torch.inf)

    def select(self, rows: Tensor) -> Self:
        return self


@dataclass(frozen=True)
class MinLength:
    """No end before n tokens."""

    n: int

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        return Suppress((EOS,))(log_probs, tokens) if tokens.shape[1] - 1 < self.n else log_probs

    def select(self, rows: Tensor) -> Self:
        return self


@dataclass(frozen=True)
class NoRepeatNgram:
    """No n tokens in a row occur twice in a hypothesis."""

    n: int

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        said = tokens[:, 1:]
        if said.shape[1] < self.n:
            return log_probs
        ngrams = said.unfold(1, self.n, 1)  # [R, t − n + 1, n]
        tail = said[:, said.shape[1] - self.n + 1 :]  # the last n − 1 tokens
        rows, places = (ngrams[:, :, :-1] == tail[:, None]).all(-1).nonzero(as_tuple=True)
        log_probs = log_probs.clone()
        log_probs[rows, ngrams[rows, places, -1]] = -torch.inf
        return log_probs

    def select(self, rows: Tensor) -> Self:
        return self


@dataclass(frozen=True)
class MaxLength:
    """Row r ends after limits[r] tokens at the latest."""

    limits: Tensor

    def __call__(self, tokens: Tensor) -> Tensor:
        return torch.where(self.limits <= tokens.shape[1] - 1, EOS, -1)

    def select(self, rows: Tensor) -> "MaxLength":
        return MaxLength(self.limits.index_select(0, rows))


@dataclass(frozen=True)
class Prefix:
    """Row r starts with ids[r]; −1 marks where its prefix has ended."""

    ids: Tensor

    @classmethod
    def of(cls, prefixes: Sequence[Sequence[int]], device: torch.device) -> "Prefix":
        width = max((len(p) for p in prefixes), default=0)
        rows = [[*p, *[-1] * (width - len(p))] for p in prefixes]
        return cls(torch.tensor(rows, dtype=torch.int64, device=device).view(len(prefixes), width))

    def __call__(self, tokens: Tensor) -> Tensor:
        place = tokens.shape[1] - 1
        if place < self.ids.shape[1]:
            return self.ids[:, place]
        return torch.full_like(tokens[:, 0], -1)

    def select(self, rows: Tensor) -> "Prefix":
        return Prefix(self.ids.index_select(0, rows))


@dataclass(frozen=True)
class Constraints:
    """All of them together. What is demanded overrules what is forbidden; a later demand an earlier one."""

    forbidding: tuple[Constraint, ...] = ()
    demanding: tuple[Demand, ...] = ()

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        allowed = log_probs
        for constraint in self.forbidding:
            allowed = constraint(allowed, tokens)
        stuck = (allowed == -torch.inf).all(1, keepdim=True)  # where everything is forbidden, it may end
        allowed = torch.where(stuck, _only(log_probs, torch.full_like(tokens[:, 0], EOS)), allowed)
        for demand in self.demanding:
            wanted = demand(tokens)
            allowed = torch.where((wanted >= 0)[:, None], _only(log_probs, wanted.clamp(min=0)), allowed)
        return allowed

    def select(self, rows: Tensor) -> "Constraints":
        return Constraints(
            tuple(constraint.select(rows) for constraint in self.forbidding),
            tuple(demand.select(rows) for demand in self.demanding),
        )


def _only(log_probs: Tensor, ids: Tensor) -> Tensor:
    kept = log_probs.gather(1, ids[:, None])
    return torch.full_like(log_probs, -torch.inf).scatter(1, ids[:, None], kept)
