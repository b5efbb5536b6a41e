"""Recurrent layers over padded batches, whole or a token at a time."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentState(NamedTuple):
    """h [B, L, D] of every layer, and for an LSTM the cell c beside it"""

    h: Tensor
    c: Tensor | None

    def select(self, rows: Tensor) -> "RecurrentState":
        return RecurrentState(self.h.index_select(0, rows), None if self.c is None else self.c.index_select(0, rows))


class Recurrent(nn.Module):
    """h_t = RNN(x_t, h_{t−1}), several layers of it. Padding on the right changes nothing before it."""

    def __init__(self, cell: str, d_in: int, d_hidden: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if n_layers > 1 else 0.0
        self.rnn = CELLS[cell](d_in, d_hidden, n_layers, batch_first=True, dropout=between)
        self.cell = cell

    def forward(self, x: Tensor, state: RecurrentState | None = None) -> tuple[Tensor, RecurrentState]:
        """x [B, T, D] → the last layer's states [B, T, H], and what a following token needs"""
        if self.cell == "gru":
            y, h = self.rnn(x, None if state is None else _inner(state.h))
            return y, RecurrentState(_outer(h), None)
        given = None if state is None or state.c is None else (_inner(state.h), _inner(state.c))
        y, (h, c) = self.rnn(x, given)
        return y, RecurrentState(_outer(h), _outer(c))

    def initial(self, h: Tensor) -> RecurrentState:
        """From h [B, L, H]; an LSTM's cell begins empty."""
        return RecurrentState(h, torch.zeros_like(h) if self.cell == "lstm" else None)


class BidirectionalLayer(nn.Module):
    """[forward state ; backward state] a token. The backward half reads each row from its own last token."""

    def __init__(self, cell: str, d_in: int, d_out: int) -> None:
        super().__init__()
        self.ahead = Recurrent(cell, d_in, d_out // 2, 1, 0.0)
        self.back = Recurrent(cell, d_in, d_out // 2, 1, 0.0)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x [B, T, D], lengths [B] → [B, T, d_out]"""
        ahead, back = self.ahead(x)[0], self.back(flip(x, lengths))[0]
        return torch.cat([ahead, flip(back, lengths)], dim=-1)


class ForwardLayer(nn.Module):
    def __init__(self, cell: str, d_in: int, d_out: int) -> None:
        super().__init__()
        self.ahead = Recurrent(cell, d_in, d_out, 1, 0.0)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.ahead(x)[0]


def flip(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row of x [B, T, D] back to front within its length; the padding stays where it is."""
    places = torch.arange(x.shape[1], device=x.device)
    back = lengths[:, None] - 1 - places
    return x.gather(1, torch.where(back >= 0, back, places)[..., None].expand_as(x))


def last(x: Tensor, lengths: Tensor) -> Tensor:
    """x [B, T, D] at each row's last token → [B, D]"""
    return x[torch.arange(len(x), device=x.device), lengths - 1]


def _inner(state: Tensor) -> Tensor:
    return state.transpose(0, 1).contiguous()  # torch keeps layers first


def _outer(state: Tensor) -> Tensor:
    return state.transpose(0, 1)
