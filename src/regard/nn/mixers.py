"""Mixers: the part of a layer in which tokens exchange information (self-attention is one of them)."""

from typing import NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from regard.nn.attention import AttentionTrace, Heads, MultiHeadAttention, attend_traced
from regard.nn.changes import HeadChange
from regard.nn.kv_cache import Places
from regard.nn.linear_attention import (
    FEATURE_MAPS,
    LinearState,
    add_to_state,
    causal_linear_attention,
    empty_state,
    linear_attention,
    linear_weights,
    read_state,
)
from regard.nn.masks import causal_mask
from regard.nn.recurrent import reverse_within_length
from regard.nn.state_space import SelectiveStateSpace, SsmState

Mixed = tuple[Tensor, AttentionTrace | None]
"""What a mixer returns: vectors [B, T, D] and, if it is attention and a trace was requested, the trace"""


class MixerState(Protocol):
    """What a causal mixer remembers of earlier tokens, one row per hypothesis (a key-value cache: one per group)."""

    def select(self, rows: Tensor) -> Self: ...


MixerStateT = TypeVar("MixerStateT", bound=MixerState)


class Mixer(Protocol):
    """Mixes a whole sequence at once."""

    def __call__(
        self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False, change: HeadChange | None = None
    ) -> Mixed:
        """x [B, T, D], mask [B, 1, Tq or 1, T] → y [B, T, D] and, if it is attention, its trace"""
        ...


class CausalMixer(Mixer, Protocol[MixerStateT]):
    """A mixer that sees earlier tokens only, and so can also process one token at a time."""

    def start(self, rows: int, like: Tensor) -> MixerStateT:
        """Return the state before the first token, on the device and with the width of `like` [..., D]."""
        ...

    def step(
        self, x: Tensor, state: MixerStateT, places: Places, change: HeadChange | None = None
    ) -> tuple[Tensor, MixerStateT]:
        """Process the next token x [B, 1, D] → y [B, 1, D] and the state after it"""
        ...

    def state_size(self, n_tokens: int) -> int:
        """Numbers that the state holds per row after `n_tokens` tokens."""
        ...


class LinearAttention(MultiHeadAttention):
    """Attention without the softmax: y = φ(q) Σ_i φ(k_i) v_iᵀ, where the sum is kept as a state of fixed size.

    φ = identity is the lecture's form; φ = elu + 1 with weights divided by their sum is Katharopoulos et al. (2020).
    """

    def __init__(self, heads: Heads, causal: bool, feature: str) -> None:
        super().__init__(heads._replace(n_kv_heads=None))
        self.causal = causal
        self.feature_map = FEATURE_MAPS[feature]
        self.divide_by_sum = feature != "identity"
        self.score_name = "linear"
        self.normalise = "sum" if self.divide_by_sum else "none"

    def forward(  # type: ignore[override]  # keys and values are computed from x
        self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False, change: HeadChange | None = None
    ) -> Mixed:
        q, k, v = self._features(x)
        if need_trace:
            mask = causal_mask(q.shape[-2], k.shape[-2], q.device) if self.causal else mask
            weights = linear_weights(q, k, self.divide_by_sum, mask)
            trace = attend_traced(q, k, v, "dot", mask, "none")._replace(weights=weights)
            return self.join_heads(trace.output, change), trace
        if self.causal:
            return self.join_heads(causal_linear_attention(q, k, v, self.divide_by_sum), change), None
        return self.join_heads(linear_attention(q, k, v, self.divide_by_sum, mask), change), None

    def start(self, rows: int, like: Tensor) -> LinearState:
        return empty_state(rows, self.n_heads, *self.widths, like)

    def step(
        self, x: Tensor, state: LinearState, places: Places | None = None, change: HeadChange | None = None
    ) -> tuple[Tensor, LinearState]:
        q, k, v = self._features(x)
        state = add_to_state(state, k, v)
        return self.join_heads(read_state(state, q, self.divide_by_sum), change), state

    def state_size(self, n_tokens: int) -> int:
        d_k, d_v = self.widths
        return self.n_heads * d_k * (d_v + 1)

    def _features(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, (k, v) = self.queries(x), self.keys_values(x)
        scale = q.shape[-1] ** -0.25  # 1/√K of the scaled dot product, half of it on each side
        return self.feature_map(q * scale), self.feature_map(k * scale), v


class StateSpace(nn.Module):
    """A selective state space that reads from left to right."""

    def __init__(self, d_model: int, d_state: int) -> None:
        super().__init__()
        self.left_to_right = SelectiveStateSpace(d_model, d_state)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False, change: HeadChange | None = None
    ) -> Mixed:
        return self.left_to_right(x), None

    def start(self, rows: int, like: Tensor) -> SsmState:
        return self.left_to_right.start(rows, like)

    def step(
        self, x: Tensor, state: SsmState, places: Places | None = None, change: HeadChange | None = None
    ) -> tuple[Tensor, SsmState]:
        return self.left_to_right.step(x, state)

    def state_size(self, n_tokens: int) -> int:
        return self.left_to_right.state_size


class BidirectionalStateSpace(nn.Module):
    """The sum of two state spaces, one from the left and one from the last token of each row."""

    def __init__(self, d_model: int, d_state: int) -> None:
        super().__init__()
        self.left_to_right = SelectiveStateSpace(d_model, d_state)
        self.right_to_left = SelectiveStateSpace(d_model, d_state)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False, change: HeadChange | None = None
    ) -> Mixed:
        lengths = torch.full((len(x),), x.shape[1], device=x.device) if mask is None else mask[:, 0, 0].sum(-1)
        backward = self.right_to_left(reverse_within_length(x, lengths))
        return self.left_to_right(x) + reverse_within_length(backward, lengths), None


class WindowState(NamedTuple):
    """The last w − 1 inputs [B, w − 1, D]"""

    inputs: Tensor

    def select(self, rows: Tensor) -> "WindowState":
        return WindowState(self.inputs.index_select(0, rows))


class Window(nn.Module):
    """y_t = W [x_{t−w+1} ; … ; x_t] + b: a feed-forward net over the last w tokens, zeros before the first"""

    def __init__(self, d_model: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.join = nn.Linear(window * d_model, d_model)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False, change: HeadChange | None = None
    ) -> Mixed:
        return self._slide(torch.cat([self.start(len(x), x).inputs, x], dim=1)), None

    def start(self, rows: int, like: Tensor) -> WindowState:
        return WindowState(like.new_zeros(rows, self.window - 1, like.shape[-1]))

    def step(
        self, x: Tensor, state: WindowState, places: Places | None = None, change: HeadChange | None = None
    ) -> tuple[Tensor, WindowState]:
        inputs = torch.cat([state.inputs, x], dim=1)
        return self._slide(inputs), WindowState(inputs[:, x.shape[1] :])

    def state_size(self, n_tokens: int) -> int:
        return (self.window - 1) * self.join.out_features

    def _slide(self, x: Tensor) -> Tensor:
        return self.join(x.unfold(1, self.window, 1).transpose(-2, -1).flatten(2))
