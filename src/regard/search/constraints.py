"""Constraints on the next token: forbidden tokens (log-probability −∞) and forced tokens.

All are functions of tensors of a fixed shape, so that a step of the search can be captured as a CUDA graph.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from regard.text.vocab import EOS, PAD


class Constraint(Protocol):
    """Forbids tokens."""

    def __call__(self, log_probs: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Set forbidden tokens to −∞ in log_probs [R, V], in place.

        tokens [R, T] are the hypotheses, BOS first; only the first lengths [R] tokens of a row are there.
        """
        ...


class ForcedToken(Protocol):
    """Forces the next token."""

    @property
    def width(self) -> int:
        """Numbers that it stores per row"""
        ...

    def __call__(self, lengths: Tensor) -> Tensor:
        """lengths [R] → [R]: the id that must come next, or −1 where any token may"""
        ...


@dataclass(frozen=True)
class Suppress:
    """Ids that are never generated, such as padding."""

    ids: tuple[int, ...]

    def __call__(self, log_probs: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        return log_probs.index_fill_(1, _ids_on(log_probs.device, self.ids), -torch.inf)


@dataclass(frozen=True)
class MinLength:
    """No end before n tokens"""

    n: int

    def __call__(self, log_probs: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        log_probs[:, EOS].masked_fill_(lengths <= self.n, -torch.inf)
        return log_probs


@dataclass(frozen=True)
class NoRepeatNgram:
    """No sequence of n tokens occurs twice in a hypothesis."""

    n: int

    def __call__(self, log_probs: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        n_tokens = tokens.shape[1]
        if n_tokens - 1 < self.n:
            return log_probs
        ngrams = tokens[:, 1:].unfold(1, self.n, 1)  # [R, T − n, n]
        ends = torch.arange(self.n + 1, n_tokens + 1, device=tokens.device)  # tokens up to the end of each n-gram
        tail = lengths[:, None] - self.n + 1 + torch.arange(self.n - 1, device=tokens.device)  # the last n − 1 tokens
        last = tokens.gather(1, tail.clamp(0, n_tokens - 1))
        repeats = (ngrams[:, :, :-1] == last[:, None]).all(-1) & (ends <= lengths[:, None])
        # PAD is suppressed anyway, so it stands for "nothing".
        return log_probs.scatter_(1, torch.where(repeats, ngrams[:, :, -1], PAD), -torch.inf)


@dataclass(frozen=True)
class MaxLength:
    """Row r ends after at most limits[r] tokens."""

    limits: Tensor
    width = 1

    def __call__(self, lengths: Tensor) -> Tensor:
        return torch.where(lengths > self.limits, EOS, -1)


@dataclass(frozen=True)
class Prefix:
    """Row r starts with ids[r]; −1 marks positions after the end of its prefix."""

    ids: Tensor

    @classmethod
    def of(cls, prefixes: Sequence[Sequence[int]], device: torch.device) -> "Prefix":
        width = max((len(p) for p in prefixes), default=0) + 1
        rows = [[*p, *[-1] * (width - len(p))] for p in prefixes]
        return cls(torch.tensor(rows, dtype=torch.int64, device=device).view(len(prefixes), width))

    @property
    def width(self) -> int:
        return self.ids.shape[1]

    def __call__(self, lengths: Tensor) -> Tensor:
        position = (lengths - 1).clamp(max=self.ids.shape[1] - 1)
        return self.ids.gather(1, position[:, None]).squeeze(1)


@dataclass(frozen=True)
class Constraints:
    """All constraints together. A forced token overrules a forbidden one, a later forced token an earlier one."""

    forbidden: tuple[Constraint, ...] = ()
    forced: tuple[ForcedToken, ...] = ()

    @property
    def key(self) -> Hashable:
        """The same for constraints that differ in the values of their tensors only"""
        return self.forbidden, tuple((type(force), force.width) for force in self.forced)

    def forbid(self, log_probs: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Set forbidden tokens to −∞ in log_probs [R, V], in place."""
        for constraint in self.forbidden:
            log_probs = constraint(log_probs, tokens, lengths)
        return log_probs

    def forced_ids(self, lengths: Tensor) -> Tensor:
        """Return the id that must come next in each row [R], or −1 where any token may."""
        ids: Tensor | None = None
        for force in self.forced:
            forced = force(lengths)
            ids = forced if ids is None else torch.where(forced >= 0, forced, ids)
        return torch.full_like(lengths, -1) if ids is None else ids


@lru_cache
def _ids_on(device: torch.device, ids: tuple[int, ...]) -> Tensor:
    return torch.tensor(ids, device=device)
