"""Embedding: the token's vector and its place, joined."""

import math

import torch
from torch import Tensor, nn

from regard.nn.positions import LearnedPositions, SinusoidalPositions


class Add(nn.Module):
    """x + p, as in the paper"""

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return x + p


class Concatenate(nn.Module):
    """W [x ; p]: adding is the case W = [I I]"""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(2 * d_model, d_model, bias=False)

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        return self.mix(torch.cat([x, p.expand_as(x)], dim=-1))


class Embedding(nn.Module):
    """dropout(join(√D · E[id], position)); `tokens` may be shared with other embeddings and the output layer."""

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

    def forward(self, ids: Tensor, start: int = 0, before: Tensor | None = None) -> Tensor:
        """[B, T] ids that stand at start … start + T − 1 → [B, T, D]

        before [B]: so many places of a row are padding on the left, and do not count.
        """
        x = self.tokens(ids) * self.scale
        if self.positions is not None:
            x = self.join(x, self._places(start, ids.shape[1], before))
        if torch.is_autocast_enabled(ids.device.type):
            # The residual stream then runs in half precision, which halves the traffic between the layers.
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        return self.dropout(x)

    def _places(self, start: int, n: int, before: Tensor | None) -> Tensor:
        assert self.positions is not None
        if before is None:
            return self.positions(start, n)
        places = torch.arange(start, start + n, device=before.device) - before[:, None]
        return self.positions.at(places.clamp(min=0), start + n)
