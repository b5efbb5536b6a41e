"""Where a token stands: sinusoidal or learned vectors, one a position."""

import torch
from torch import Tensor, nn

from regard.errors import UserError


def sinusoid(positions: Tensor, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^{2i/d}), PE(pos, 2i+1) = cos(the same);  [T] → [T, D]"""
    i = torch.arange(0, d_model, 2, device=positions.device, dtype=torch.float64)
    angles = positions[:, None] / 10000 ** (i / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


class SinusoidalPositions(nn.Module):
    """Fixed, and defined for every length: the table is a start, longer input computes its own rows."""

    table: Tensor

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.d_model = d_model
        table = sinusoid(torch.arange(max_len), d_model).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, start: int, n: int) -> Tensor:
        """Positions start … start + n − 1 → [n, D]"""
        if start + n <= len(self.table):
            return self.table[start : start + n]
        places = torch.arange(start, start + n, device=self.table.device)
        return sinusoid(places, self.d_model).to(self.table.dtype)


class LearnedPositions(nn.Module):
    """One trained vector a position; past the trained length there is none, which is an error."""

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_len, d_model) * d_model**-0.5)

    def forward(self, start: int, n: int) -> Tensor:
        """Positions start … start + n − 1 → [n, D]"""
        if start + n > len(self.table):
            raise UserError(
                f"a sequence of {start + n} tokens is longer than the {len(self.table)} learned positions; "
                "split it, or train with model.max_len raised or model.positions=sinusoidal"
            )
        return self.table[start : start + n]


POSITIONS: dict[str, type[nn.Module]] = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
