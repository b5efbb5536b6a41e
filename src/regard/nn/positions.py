"""Position encodings: vectors added to embeddings, rotation of queries and keys (RoPE), bias on scores (ALiBi)."""

from typing import NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.config import Config
from regard.errors import UserError

ROPE_BASE = 10000.0
_TABLE = 2**21  # numbers that are computed in advance, however long sequences may be


def sinusoid(positions: Tensor, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^{2i/d}), PE(pos, 2i+1) = cos(pos / 10000^{2i/d});  [T] → [T, D]"""
    i = torch.arange(0, d_model, 2, device=positions.device, dtype=torch.float64)
    angles = positions[:, None] / 10000 ** (i / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


class SinusoidalPositions(nn.Module):
    """Fixed vectors for any length: the first ones are in a table, later ones are computed when needed."""

    table: Tensor

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.d_model = d_model
        table = sinusoid(torch.arange(min(max_len, _TABLE // d_model)), d_model).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, n: int) -> Tensor:
        """Positions 0 … n − 1 → [n, D]"""
        if n <= len(self.table):
            return self.table[:n]
        return sinusoid(torch.arange(n, device=self.table.device), self.d_model).to(self.table.dtype)

    def at(self, positions: Tensor, end: int) -> Tensor:
        """positions [B, T], all less than `end` → [B, T, D]"""
        if end <= len(self.table):
            return self.table[positions]
        return sinusoid(positions.flatten(), self.d_model).to(self.table.dtype).view(*positions.shape, -1)


class LearnedPositions(nn.Module):
    """One trained vector per position; a longer sequence is an error."""

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, n: int) -> Tensor:
        """Positions 0 … n − 1 → [n, D]"""
        if n > len(self.table):
            raise UserError(
                f"a sequence of {n} tokens is longer than the {len(self.table)} learned positions; "
                "split it, or train with a larger model.max_len or model.positions=sinusoidal"
            )
        return self.table[:n]

    def at(self, positions: Tensor, end: int) -> Tensor:
        """positions [B, T] → [B, T, D]. Positions past the table must be padding, whose vectors are not used."""
        return self.table[positions.clamp(max=len(self.table) - 1)]


POSITIONS: dict[str, type[SinusoidalPositions] | type[LearnedPositions]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
}


class RopeScaling(Config):
    """The scaling of Llama 3.1 for longer texts: slow rotations get slower by `factor`, fast ones stay as they are."""

    factor: float = Field(8.0, gt=0.0)
    low: float = Field(1.0, gt=0.0)
    """Pairs that turn at most this many times in `context` positions are scaled."""
    high: float = 4.0
    """Pairs that turn at least this many times in `context` positions stay as they are."""
    context: int = Field(8192, ge=1, le=1_000_000)
    """Longest text in training before the scaling."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.high <= self.low:
            raise ValueError(f"high={self.high} must be more than low={self.low}")
        return self

    def __call__(self, periods: Tensor) -> Tensor:
        """Scale the positions that each pair needs to turn by 1 radian [K/2]."""
        turns = self.context / (2 * torch.pi * periods)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return periods / (kept + (1 - kept) / self.factor)


class Rope(NamedTuple):
    """Options of rotary positions"""

    theta: float = ROPE_BASE
    scaling: RopeScaling | None = None

    def periods(self, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return the positions that each pair needs to turn by 1 radian [K/2]: θ^{2i/K}, unless it is scaled."""
        periods = self.theta ** (torch.arange(0, width, 2, device=device, dtype=dtype) / width)
        return periods if self.scaling is None else self.scaling(periods)


class Rotation(NamedTuple):
    """Cosine and sine of the angles by which RoPE rotates: [..., T, K/2]"""

    cos: Tensor
    sin: Tensor


def rotation(positions: Tensor, width: int, dtype: torch.dtype, rope: Rope = Rope()) -> Rotation:
    """RoPE (Su et al. 2021) rotates the pair (x_i, x_{i + K/2}) at position p by p / θ^{2i/K};  [..., T]"""
    dtype = torch.promote_types(dtype, torch.float32)
    angles = positions[..., None].to(dtype) / rope.periods(width, positions.device, dtype)
    return Rotation(angles.cos(), angles.sin())


def rotate(x: Tensor, angles: Rotation) -> Tensor:
    """Rotate queries or keys [..., T, K]. The dot product of a query and a key then depends on their distance only."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * angles.cos - right * angles.sin, right * angles.cos + left * angles.sin], dim=-1).to(
        x.dtype
    )


def distances(n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    """[Tq, Tk]: |i − j| of query and key positions, where the last query is at the last key"""
    queries = torch.arange(n_keys - n_queries, n_keys, device=device)
    return (queries[:, None] - torch.arange(n_keys, device=device)).abs()


def alibi(n_heads: int, distance: Tensor, dtype: torch.dtype) -> Tensor:
    """ALiBi (Press et al. 2022): the bias −m_h |i − j| on the scores, m_h = 2^{−8h/H};  → [H, Tq, Tk] or [B, H, Tq, Tk]

    `distance` is |i − j|, [Tq, Tk] or [B, 1, Tq, Tk].
    """
    slopes = 2.0 ** (-8.0 * torch.arange(1, n_heads + 1, device=distance.device) / n_heads)
    return (-slopes[:, None, None] * distance).to(dtype)
