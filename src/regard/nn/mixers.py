"""Mixers: the part of a layer in which tokens see each other. All of them have the verbs of `SelfAttention`:

forward(x [B, T, D], mask, need_look) → (y [B, T, D], Look or None), the whole sequence at once, and, if causal,
start(rows, like) → state and step(x [B, 1, D], state, mask) → (y, state), a token at a time.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.nn.attention import AttentionTrace, Heads, MultiHeadAttention, attend_traced
from regard.nn.linear_attention import (
    FEATURES,
    LinearState,
    add,
    causal_linear_attention,
    empty_state,
    linear_attention,
    linear_weights,
    read,
)
from regard.nn.masks import causal_mask
from regard.nn.recurrent import flip
from regard.nn.state_space import SelectiveStateSpace, SsmState

Mixed = tuple[Tensor, AttentionTrace | None]


class LinearAttention(MultiHeadAttention):
    """Attention without the softmax: y = φ(q) Σ_i φ(k_i) v_iᵀ, a sum that can be kept.

    φ = identity is the lecture's; φ = elu + 1 with weights divided by their sum is Katharopoulos et al. (2020).
    """

    def __init__(self, heads: Heads, causal: bool, feature: str) -> None:
        super().__init__(heads._replace(n_kv_heads=None))
        self.causal = causal
        self.feature = FEATURES[feature]
        self.by_sum = feature != "identity"

    def forward(self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False) -> Mixed:  # type: ignore[override]
        q, k, v = self._mapped(x)
        if need_trace:
            square = causal_mask(q.shape[-2], k.shape[-2], q.device) if self.causal else mask
            weights = linear_weights(q, k, self.by_sum, square)
            seen = attend_traced(q, k, v, "dot", square, "none")._replace(weights=weights)
            return self._join(seen.output), seen
        if self.causal:
            return self._join(causal_linear_attention(q, k, v, self.by_sum)), None
        return self._join(linear_attention(q, k, v, self.by_sum, mask)), None

    def start(self, rows: int, like: Tensor) -> LinearState:
        width = like.shape[-1] // self.n_heads
        return empty_state(rows, self.n_heads, width, width, like)

    def step(self, x: Tensor, state: LinearState, mask: Tensor | None = None) -> tuple[Tensor, LinearState]:
        q, k, v = self._mapped(x)
        state = add(state, k, v)
        return self._join(read(state, q, self.by_sum)), state

    def _mapped(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, (k, v) = self.queries(x), self.keys_values(x)
        scale = q.shape[-1] ** -0.25  # as the scaled dot product, shared by both sides
        return self.feature(q * scale), self.feature(k * scale), v


class StateSpace(nn.Module):
    """A selective state space over what stands before."""

    def __init__(self, d_model: int, d_state: int) -> None:
        super().__init__()
        self.ahead = SelectiveStateSpace(d_model, d_state)

    def forward(self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False) -> Mixed:
        return self.ahead(x), None

    def start(self, rows: int, like: Tensor) -> SsmState:
        return self.ahead.start(rows, like)

    def step(self, x: Tensor, state: SsmState, mask: Tensor | None = None) -> tuple[Tensor, SsmState]:
        return self.ahead.step(x, state)


class BidirectionalStateSpace(nn.Module):
    """One state space from the front and one from each row's own end, summed."""

    def __init__(self, d_model: int, d_state: int) -> None:
        super().__init__()
        self.ahead = SelectiveStateSpace(d_model, d_state)
        self.back = SelectiveStateSpace(d_model, d_state)

    def forward(self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False) -> Mixed:
        lengths = torch.full((len(x),), x.shape[1], device=x.device) if mask is None else mask[:, 0, 0].sum(-1)
        return self.ahead(x) + flip(self.back(flip(x, lengths)), lengths), None


class WindowState(NamedTuple):
    inputs: Tensor
    """[B, w − 1, D]: the last inputs"""

    def select(self, rows: Tensor) -> "WindowState":
        return WindowState(self.inputs.index_select(0, rows))


class Window(nn.Module):
    """y_t = W [x_{t−w+1} ; … ; x_t] + b: a feed-forward net sees a fixed number of tokens, zeros before the first"""

    def __init__(self, d_model: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.join = nn.Linear(window * d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False) -> Mixed:
        return self._slide(torch.cat([self.start(len(x), x).inputs, x], dim=1)), None

    def start(self, rows: int, like: Tensor) -> WindowState:
        return WindowState(like.new_zeros(rows, self.window - 1, like.shape[-1]))

    def step(self, x: Tensor, state: WindowState, mask: Tensor | None = None) -> tuple[Tensor, WindowState]:
        seen = torch.cat([state.inputs, x], dim=1)
        return self._slide(seen), WindowState(seen[:, x.shape[1] :])

    def _slide(self, x: Tensor) -> Tensor:
        return self.join(x.unfold(1, self.window, 1).transpose(-2, -1).flatten(2))
