"""Embeddings: token vectors combined with position vectors."""

import math

import torch
from torch import Tensor, nn

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
    """dropout(join(√D · E[id], position)). `tokens` may be shared with other embeddings and the output layer."""

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: SinusoidalPositions | LearnedPositions | None,
        join: nn.Module,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.join = join
        self.dropout = nn.Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim)

    def forward(self, ids: Tensor, start: int = 0, n_padding: Tensor | None = None) -> Tensor:
        """Embed ids [B, T] at positions start … start + T − 1 → [B, T, D]

        n_padding [B]: padding tokens on the left of each row, which positions do not count.
        """
        x = self.tokens(ids) * self.scale
        if self.positions is not None:
            x = self.join(x, self._positions(start, ids.shape[1], n_padding))
        if torch.is_autocast_enabled(ids.device.type):
            # Keep the residual stream in half precision: half the memory traffic between layers.
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        return self.dropout(x)

    def _positions(self, start: int, n: int, n_padding: Tensor | None) -> Tensor:
        assert self.positions is not None
        if n_padding is None:
            return self.positions(start, n)
        positions = torch.arange(start, start + n, device=n_padding.device) - n_padding[:, None]
        return self.positions.at(positions.clamp(min=0), start + n)
