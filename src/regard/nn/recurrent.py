"""Recurrent layers over padded batches: the whole sequence at once or one token at a time."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

CELLS: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
"""rnn is the simple (Elman) cell, h_t = tanh(W x_t + U h_{t−1} + b)"""


class RecurrentState(NamedTuple):
    """Hidden state h [B, L, D] of every layer and, for an LSTM, the cell state c"""

    h: Tensor
    c: Tensor | None

    def select(self, rows: Tensor) -> "RecurrentState":
        return RecurrentState(self.h.index_select(0, rows), None if self.c is None else self.c.index_select(0, rows))


class Recurrent(nn.Module):
    """h_t = RNN(x_t, h_{t−1}) with several layers. Padding on the right does not affect earlier states."""

    def __init__(self, cell: str, d_in: int, d_hidden: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if n_layers > 1 else 0.0
        self.rnn = CELLS[cell](d_in, d_hidden, n_layers, batch_first=True, dropout=between)
        self.cell = cell

    def forward(self, x: Tensor, state: RecurrentState | None = None) -> tuple[Tensor, RecurrentState]:
        """x [B, T, D] → hidden states of the last layer [B, T, H], and the state after the last token"""
        if self.cell != "lstm":
            y, h = self.rnn(x, None if state is None else _layers_first(state.h))
            return y, RecurrentState(_batch_first(h), None)
        initial = None if state is None or state.c is None else (_layers_first(state.h), _layers_first(state.c))
        y, (h, c) = self.rnn(x, initial)
        return y, RecurrentState(_batch_first(h), _batch_first(c))

    def initial_state(self, h: Tensor) -> RecurrentState:
        """Return the state that starts from h [B, L, H]; the cell state of an LSTM starts at zero."""
        return RecurrentState(h, torch.zeros_like(h) if self.cell == "lstm" else None)


class BidirectionalLayer(nn.Module):
    """[forward state ; backward state] per token. The backward half starts at the last token of each row."""

    def __init__(self, cell: str, d_in: int, d_out: int) -> None:
        super().__init__()
        self.left_to_right = Recurrent(cell, d_in, d_out // 2, 1, 0.0)
        self.right_to_left = Recurrent(cell, d_in, d_out // 2, 1, 0.0)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x [B, T, D], lengths [B] → [B, T, d_out]"""
        forward, backward = self.left_to_right(x)[0], self.right_to_left(reverse_within_length(x, lengths))[0]
        return torch.cat([forward, reverse_within_length(backward, lengths)], dim=-1)


class ForwardLayer(nn.Module):
    """One hidden state per token, read from left to right."""

    def __init__(self, cell: str, d_in: int, d_out: int) -> None:
        super().__init__()
        self.left_to_right = Recurrent(cell, d_in, d_out, 1, 0.0)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.left_to_right(x)[0]


def reverse_within_length(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row of x [B, T, D] within its length; padding stays where it is."""
    positions = torch.arange(x.shape[1], device=x.device)
    reversed_ = lengths[:, None] - 1 - positions
    return x.gather(1, torch.where(reversed_ >= 0, reversed_, positions)[..., None].expand_as(x))


def last_token(x: Tensor, lengths: Tensor) -> Tensor:
    """Vectors of the last token of each row;  x [B, T, D] → [B, D]"""
    return x[torch.arange(len(x), device=x.device), lengths - 1]


def _layers_first(state: Tensor) -> Tensor:
    return state.transpose(0, 1).contiguous()  # torch requires it


def _batch_first(state: Tensor) -> Tensor:
    return state.transpose(0, 1)
