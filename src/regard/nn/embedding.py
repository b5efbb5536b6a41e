"""Embeddings: token vectors combined with position vectors."""

import math

import torch
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.positions import LearnedPositions, SinusoidalPositions


class Add(nn.Module):
    """x + p, as in the paper "Attention Is All You Need" """

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return x + p


class Concatenate(nn.Module):
    """W [x ; p]; addition is the special case W = [I I]"""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(2 * d_model, d_model, bias=False)

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return self.mix(torch.cat([x, p.expand_as(x)], dim=-1))


class Embedding(nn.Module):
    """dropout(norm(join(√D · E[id], position))). `tokens` may be shared with other embeddings and the output layer.

    By default there is no norm. Without `scaled`, the factor √D is left out.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: SinusoidalPositions | LearnedPositions | None,
        join: nn.Module,
        dropout: float,
        scaled: bool = True,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.join = join
        self.dropout = Dropout(dropout)
        self.norm = norm
        self.scale = math.sqrt(tokens.embedding_dim) if scaled else 1.0

    def forward(self, ids: Tensor, n_padding: Tensor | None = None) -> Tensor:
        """Embed ids [B, T] at positions 0 … T − 1 → [B, T, D]

        n_padding [B]: padding tokens on the left of each row, which positions do not count.
        """
        if self.positions is None:
            return self._combine(ids, None)
        if n_padding is None:
            return self._combine(ids, self.positions(ids.shape[1]))
        positions = torch.arange(ids.shape[1], device=ids.device) - n_padding[:, None]
        return self._combine(ids, self.positions.at(positions.clamp(min=0), ids.shape[1]))

    def at(self, ids: Tensor, positions: Tensor, end: int) -> Tensor:
        """Embed ids [B, T] at the given positions [B, T], all less than `end` → [B, T, D]"""
        return self._combine(ids, None if self.positions is None else self.positions.at(positions, end))

    def _combine(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        x = self.tokens(ids)
        if self.scale != 1.0:
            x = x * self.scale
        if positions is not None:
            x = self.join(x, positions)
        if self.norm is not None:
            x = self.norm(x)
        if torch.is_autocast_enabled(ids.device.type):
            # Keep the residual stream in half precision: half the memory traffic between layers.
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        return self.dropout(x)
