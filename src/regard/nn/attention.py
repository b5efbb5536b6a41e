"""Attention: the equation itself, its fused form, and several heads of it."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.kv_cache import KeyValue
from regard.nn.masks import causal_mask
from regard.nn.normalise import NORMALISERS
from regard.nn.positions import alibi, rotate
from regard.nn.scores import make_score, score_named

ScoreFunction = Callable[[Tensor, Tensor], Tensor]


class AttentionTrace(NamedTuple):
    """Attention at work: what was compared, how well it fitted, and the weights that came of it."""

    q: Tensor
    """[..., Tq, Dq]"""
    k: Tensor
    """[..., Tk, Dk]"""
    v: Tensor
    """[..., Tk, Dv]"""
    scores: Tensor
    """[..., Tq, Tk], whether or not they may be used"""
    mask: Tensor
    """[..., Tq, Tk]: True = may attend"""
    weights: Tensor
    """[..., Tq, Tk]"""

    @property
    def output(self) -> Tensor:
        return self.weights @ self.v

    def part(self, rows: slice, columns: slice) -> "AttentionTrace":
        """Of these queries, and of these keys"""
        q, k, v = self.q[..., rows, :], self.k[..., columns, :], self.v[..., columns, :]
        return AttentionTrace(q, k, v, *(square[..., rows, columns] for square in self[3:]))


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: str | ScoreFunction = "scaled-dot",
    mask: Tensor | None = None,
    normalise: str = "softmax",
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A(q, K, V) = Σ_i softmax_i(e(q, k_i)) v_i

    q [..., Tq, Dq], k [..., Tk, Dk], v [..., Tk, Dv], mask broadcastable to [..., Tq, Tk] with True = may attend,
    bias likewise, added to the scores → output [..., Tq, Dv], weights [..., Tq, Tk]
    """
    seen = attend_traced(q, k, v, score, mask, normalise, bias)
    return seen.output, seen.weights


def attend_traced(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: str | ScoreFunction = "scaled-dot",
    mask: Tensor | None = None,
    normalise: str = "softmax",
    bias: Tensor | None = None,
) -> AttentionTrace:
    """`attend` with everything that led to its output"""
    if normalise not in NORMALISERS:
        raise UserError(f"normaliser '{normalise}' is unknown; choose one of {', '.join(NORMALISERS)}")
    e = (score_named(score) if isinstance(score, str) else score)(q, k)
    e = e if bias is None else e + bias
    weights = NORMALISERS[normalise](e, mask)
    return AttentionTrace(q, k, v, e, _everywhere(mask, e), weights)


def attend_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` with the scaled dot product in one kernel that never holds the weights.

    There may be fewer heads of keys and values than of queries; each then serves several. `dropout` is of the weights.
    """
    if causal and (mask is not None or bias is not None):
        mask, causal = _both(mask, causal_mask(q.shape[-2], k.shape[-2], q.device)), False
    if bias is not None:
        mask = bias if mask is None else torch.where(mask, bias, -torch.inf)
    grouped = q.shape[-3] != k.shape[-3]
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal, enable_gqa=grouped)


class Heads(NamedTuple):
    """What attention with several heads needs to know."""

    d_model: int
    n_heads: int
    n_kv_heads: int | None = None
    """Heads of keys and values, each shared by n_heads / n_kv_heads of queries; None: as many"""
    score: str = "scaled-dot"
    normalise: str = "softmax"
    bias: bool = True
    max_len: int = 1024
    """For the location score"""
    dropout: float = 0.0
    """Of the weights, in training"""


class MultiHeadAttention(nn.Module):
    """h heads of width d/h: project, attend in each, concatenate, times W_O.

    Self-attention takes its own keys and values, `m(x, m.keys_values(x))`; cross-attention those of the source.
    """

    def __init__(self, heads: Heads, d_memory: int | None = None) -> None:
        super().__init__()
        width = heads.d_model // heads.n_heads
        self.n_heads = heads.n_heads
        self.n_kv_heads = heads.n_kv_heads or heads.n_heads
        self.normalise = heads.normalise
        self.dropout = heads.dropout
        self.fused = (heads.score, heads.normalise) == ("scaled-dot", "softmax")
        self.score = make_score(heads.score, width, width, heads.max_len)
        self.query = nn.Linear(heads.d_model, heads.d_model, bias=heads.bias)
        self.key_value = nn.Linear(d_memory or heads.d_model, 2 * self.n_kv_heads * width, bias=heads.bias)
        self.out = nn.Linear(heads.d_model, heads.d_model, bias=heads.bias)

    def keys_values(self, x: Tensor) -> KeyValue:
        """[B, S, D] → keys and values [B, H, S, K]"""
        k, v = self.key_value(x).chunk(2, dim=-1)
        return KeyValue(_split(k, self.n_kv_heads), _split(v, self.n_kv_heads))

    def queries(self, x: Tensor) -> Tensor:
        return _split(self.query(x), self.n_heads)

    def forward(
        self,
        x: Tensor,
        memory: KeyValue,
        mask: Tensor | None = None,
        causal: bool = False,
        need_trace: bool = False,
    ) -> tuple[Tensor, AttentionTrace | None]:
        """Queries from x [B, Tq, D] → output [B, Tq, D], and the look [B, H, …] of each head where it is asked for."""
        return self.weigh(self.queries(x), memory, mask, causal, need_trace)

    def weigh(
        self,
        q: Tensor,
        memory: KeyValue,
        mask: Tensor | None,
        causal: bool,
        need_trace: bool,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, AttentionTrace | None]:
        """The look comes from the plain form; without it the fused one runs, where it computes the same."""
        k, v = memory
        if self.fused and not need_trace:
            dropout = self.dropout if self.training else 0.0
            # Half-precision keys come from autocast, a bias from plain arithmetic.
            heads = attend_fused(q, k, v, mask, causal, bias if bias is None else bias.to(q.dtype), dropout)
            return self._join(heads), None
        if causal:
            mask = _both(mask, causal_mask(q.shape[-2], k.shape[-2], q.device))
        if self.n_kv_heads != self.n_heads:
            k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        seen = attend_traced(q, k, v, self.score, mask, self.normalise, bias)
        return self._join(F.dropout(seen.weights, self.dropout, self.training) @ v), seen

    def _join(self, heads: Tensor) -> Tensor:
        return self.out(heads.transpose(1, 2).flatten(2))


class SelfAttention(MultiHeadAttention):
    """A sequence attends to itself: to all of it, or (causal) to what stands before, a token at a time if need be."""

    def __init__(self, heads: Heads, causal: bool, positions: str = "none") -> None:
        super().__init__(heads)
        self.causal = causal
        self.positions = positions

    def forward(  # type: ignore[override]  # its keys and values are its own
        self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False
    ) -> tuple[Tensor, AttentionTrace | None]:
        """x [B, T, D] → [B, T, D], and the look of each head where it is asked for"""
        q, memory = self._placed(x, 0)
        return self.weigh(q, memory, mask, self.causal, need_trace, self._bias(q, memory))

    def start(self, rows: int, like: Tensor) -> KeyValue:
        nothing = like.new_empty(rows, self.n_kv_heads, 0, like.shape[-1] // self.n_heads)
        return KeyValue(nothing, nothing)

    def step(self, x: Tensor, past: KeyValue, mask: Tensor | None = None) -> tuple[Tensor, KeyValue]:
        """The tokens x [B, n, D] that follow the past → their outputs, and the past after them"""
        n_past = past.k.shape[2]
        q, new = self._placed(x, n_past)
        memory = past.append(new)
        causal = x.shape[1] > 1
        if causal:
            mask, causal = _both(mask, causal_mask(x.shape[1], memory.k.shape[2], x.device)), False
        return self.weigh(q, memory, mask, causal, False, self._bias(q, memory))[0], memory

    def _placed(self, x: Tensor, start: int) -> tuple[Tensor, KeyValue]:
        q, (k, v) = self.queries(x), self.keys_values(x)
        if self.positions == "rotary":
            q, k = rotate(q, start), rotate(k, start)
        return q, KeyValue(k, v)

    def _bias(self, q: Tensor, memory: KeyValue) -> Tensor | None:
        if self.positions != "alibi":
            return None
        return alibi(self.n_heads, q.shape[-2], memory.k.shape[-2], q)


def _split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # [B, H, T, K]


def _everywhere(mask: Tensor | None, like: Tensor) -> Tensor:
    return (torch.ones((), dtype=torch.bool, device=like.device) if mask is None else mask).expand_as(like)


def _both(mask: Tensor | None, other: Tensor) -> Tensor:
    return other if mask is None else mask & other
