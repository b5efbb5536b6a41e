"""Attention: the equation, its fused form, and multi-head attention."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.changes import HeadChange
from regard.nn.columns import split_columns
from regard.nn.kernels.switch import fused_kernels, is_half, triton_is_installed
from regard.nn.kv_cache import HeadShape, KeyValue, KvCache, Places
from regard.nn.linear import Linear, linear
from regard.nn.masks import causal_mask
from regard.nn.normalise import NORMALISERS
from regard.nn.positions import Rope, Rotation, alibi, distances, rotate, rotation
from regard.nn.scores import make_score, score_named

ScoreFunction = Callable[[Tensor, Tensor], Tensor]


class AttentionTrace(NamedTuple):
    """Everything that one attention computation used and produced."""

    q: Tensor
    """Queries [..., Tq, Dq]"""
    k: Tensor
    """Keys [..., Tk, Dk]"""
    v: Tensor
    """Values [..., Tk, Dv]"""
    scores: Tensor
    """Scores before the mask [..., Tq, Tk]"""
    mask: Tensor
    """[..., Tq, Tk]: True = may attend"""
    weights: Tensor
    """Attention weights [..., Tq, Tk]"""

    @property
    def output(self) -> Tensor:
        return self.weights @ self.v

    def part(self, queries: slice, keys: slice) -> "AttentionTrace":
        """Return the trace of some queries and some keys."""
        q, k, v = self.q[..., queries, :], self.k[..., keys, :], self.v[..., keys, :]
        return AttentionTrace(q, k, v, *(matrix[..., queries, keys] for matrix in self[3:]))


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: str | ScoreFunction = "scaled-dot",
    mask: Tensor | None = None,
    normalise: str = "softmax",
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention, A(q, K, V) = Σ_i softmax_i(e(q, k_i)) v_i. Returns the output and the weights.

    q [..., Tq, Dq], k [..., Tk, Dk], v [..., Tk, Dv] → output [..., Tq, Dv], weights [..., Tq, Tk].
    `score` is e: a name ("dot", "scaled-dot", "cosine") or a function. `mask` is broadcastable to [..., Tq, Tk],
    True = may attend. `bias` is added to the scores. `normalise` is a name in NORMALISERS.

    >>> import torch
    >>> keys = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> values = torch.tensor([[10.0], [20.0]])
    >>> query = torch.tensor([[0.0, 3.0]])
    >>> output, weights = attend(query, keys, values)
    >>> [round(w, 3) for w in weights[0].tolist()]
    [0.107, 0.893]
    >>> round(output.item(), 2)
    18.93
    """
    trace = attend_traced(q, k, v, score, mask, normalise, bias)
    return trace.output, trace.weights


def attend_traced(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: str | ScoreFunction = "scaled-dot",
    mask: Tensor | None = None,
    normalise: str = "softmax",
    bias: Tensor | None = None,
) -> AttentionTrace:
    """Like `attend`, but returns the scores and all other intermediate values too."""
    if normalise not in NORMALISERS:
        raise UserError(f"normaliser '{normalise}' is unknown; choose one of {', '.join(NORMALISERS)}")
    e = (score_named(score) if isinstance(score, str) else score)(q, k)
    e = e if bias is None else e + bias
    weights = NORMALISERS[normalise](e, mask)
    return AttentionTrace(q, k, v, e, _expand_mask(mask, e), weights)


def attend_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` with the scaled dot product in one kernel that never stores the weights.

    Keys and values may have fewer heads than the queries; each then serves a group of query heads. `dropout` is
    applied to the weights. `causal` means the mask of `causal_mask`: the last query is aligned with the last key.
    `mask` may also be what is added to the scores, 0 or −∞.
    """
    if q.device.type == "cpu" and torch.is_grad_enabled() and is_half(q, k, v):
        with torch.autocast("cpu", enabled=False):  # the backward pass of the kernel for bf16 takes five times as long
            bias = None if bias is None else bias.float()
            mask = mask.float() if mask is not None and mask.is_floating_point() else mask
            return attend_fused(q.float(), k.float(), v.float(), mask, causal, bias, dropout).to(q.dtype)
    # The kernel's own causal mask aligns the first query with the first key, which differs unless Tq = Tk.
    if causal and (mask is not None or bias is not None or q.shape[-2] != k.shape[-2]):
        mask, causal = _combine_masks(mask, causal_mask(q.shape[-2], k.shape[-2], q.device)), False
    if bias is not None and mask is not None:
        mask = torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else mask + bias
    elif bias is not None:
        mask = bias
    # A branch, because torch.compile knows the result of a comparison of sizes only after one.
    grouped = {"enable_gqa": True} if q.shape[-3] != k.shape[-3] else {}
    if not dropout and bias is None and fused_kernels() and is_half(q, k, v):
        from regard.nn.kernels.short_attention import FusedShortAttention, fits

        if fits(q, k, v, mask):
            return FusedShortAttention.apply(q, k, v, mask, causal)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal, **grouped)


class Heads(NamedTuple):
    """Options of multi-head attention."""

    d_model: int
    n_heads: int
    n_kv_heads: int | None = None
    """Heads of keys and values, each shared by n_heads / n_kv_heads query heads; None: n_heads"""
    d_head: int | None = None
    """Width of queries and keys in each head, d_k; None: d_model / n_heads"""
    d_value: int | None = None
    """Width of values in each head, d_v; None: d_head"""
    score: str = "scaled-dot"
    normalise: str = "softmax"
    bias: bool = True
    max_len: int = 1024
    """For the location score"""
    dropout: float = 0.0
    """Dropout of the attention weights"""

    @property
    def key_width(self) -> int:
        return self.d_head or self.d_model // self.n_heads

    @property
    def value_width(self) -> int:
        return self.d_value or self.key_width


class MultiHeadAttention(nn.Module):
    """h heads, usually of width d/h: project, attend in each head, concatenate, multiply by W_O.

    Self-attention passes its own keys and values, `m(x, m.keys_values(x))`; cross-attention those of the source.
    """

    score_bias = "none"
    """What is added to the scores: "none" or "alibi" """
    context = "layer"

    def __init__(self, heads: Heads, d_memory: int | None = None) -> None:
        super().__init__()
        self.n_heads = heads.n_heads
        self.n_kv_heads = heads.n_kv_heads or heads.n_heads
        self.score_name = heads.score
        self.normalise = heads.normalise
        self.dropout = heads.dropout
        self.fused = (heads.score, heads.normalise) == ("scaled-dot", "softmax")
        d_k, d_v = self.widths = heads.key_width, heads.value_width
        self.score = make_score(heads.score, d_k, d_k, heads.max_len)
        self.query = Linear(heads.d_model, self.n_heads * d_k, bias=heads.bias)
        self.key_value = Linear(d_memory or heads.d_model, self.n_kv_heads * (d_k + d_v), bias=heads.bias)
        self.out = Linear(self.n_heads * d_v, heads.d_model, bias=heads.bias)

    def keys_values(self, x: Tensor) -> KeyValue:
        """Project x [B, S, D] to keys [B, H, S, K] and values [B, H, S, V]."""
        k, v = split_columns(self.key_value(x), [self.n_kv_heads * width for width in self.widths])
        return KeyValue(_split_heads(k, self.n_kv_heads), _split_heads(v, self.n_kv_heads))

    def queries(self, x: Tensor) -> Tensor:
        """Project x [B, T, D] to queries [B, H, T, K]."""
        return _split_heads(self.query(x), self.n_heads)

    def forward(
        self,
        x: Tensor,
        memory: KeyValue,
        mask: Tensor | None = None,
        causal: bool = False,
        need_trace: bool = False,
        change: HeadChange | None = None,
    ) -> tuple[Tensor, AttentionTrace | None]:
        """Attend from x [B, Tq, D] to `memory` → output [B, Tq, D] and, with `need_trace`, the trace [B, H, …].

        `change` switches heads off or replaces their outputs.
        """
        return self.attend_heads(self.queries(x), memory, mask, causal, need_trace, change)

    def attend_heads(
        self,
        q: Tensor,
        memory: KeyValue,
        mask: Tensor | None,
        causal: bool,
        need_trace: bool,
        change: HeadChange | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, AttentionTrace | None]:
        """Attend with queries [B, H, Tq, K]. Uses the fused kernel unless a trace or another score is needed."""
        k, v = memory
        if self.fused and not need_trace:
            dropout = self.dropout if self.training else 0.0
            # Under autocast keys are in half precision but the bias is not.
            heads = attend_fused(q, k, v, mask, causal, bias if bias is None else bias.to(q.dtype), dropout)
            return self.join_heads(heads, change), None
        if causal:
            mask = _combine_masks(mask, causal_mask(q.shape[-2], k.shape[-2], q.device))
        if self.n_kv_heads != self.n_heads:
            k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        trace = attend_traced(q, k, v, self.score, mask, self.normalise, bias)
        heads = F.dropout(trace.weights, self.dropout, self.training) @ v
        return self.join_heads(heads, change), trace

    def attend_source(self, x: Tensor, memory: KeyValue, mask: Tensor, change: HeadChange | None = None) -> Tensor:
        """Attend from the newest tokens of hypotheses x [R, 1, D] to the sources of their N sentences → [R, 1, D]

        The hypotheses of a sentence become queries of one source.
        """
        if mask.is_floating_point() and self.has_step_kernel(x):
            from regard.nn.kernels.cached_attention import attend_source

            heads = attend_source(self.query(x), *memory, mask, self.shape)
            return self.join_heads(heads.unflatten(-1, (self.n_heads, -1)).transpose(1, 2), change)
        y, _ = self(x.reshape(mask.shape[0], -1, x.shape[-1]), memory, mask, change=change)
        return y.view_as(x)

    @property
    def shape(self) -> HeadShape:
        return HeadShape(self.n_heads, self.n_kv_heads, *self.widths)

    def has_step_kernel(self, x: Tensor) -> bool:
        """Whether the attention of single tokens [R, 1, D] can be computed by our own kernel"""
        single = x.is_cuda and x.shape[1] == 1 and not torch.is_grad_enabled()
        return single and self.fused and triton_is_installed()

    def join_heads(self, heads: Tensor, change: HeadChange | None = None) -> Tensor:
        """Concatenate the heads [B, H, T, V], after a change of them, and multiply by W_O."""
        if change is not None:
            heads = change(heads)
        return self.out(heads.transpose(1, 2).flatten(2))


class SelfAttention(MultiHeadAttention):
    """A sequence attends to itself: to all positions or, if causal, to earlier ones only."""

    def __init__(self, heads: Heads, causal: bool, positions: str = "none", rope: Rope = Rope()) -> None:
        super().__init__(heads)
        self.causal = causal
        self.positions = positions
        self.rope = rope
        self.score_bias = "alibi" if positions == "alibi" else "none"
        self.joint: nn.Module | None = None
        """Queries, keys and values in one product, in copies of a model for decoding"""

    def forward(  # type: ignore[override]  # keys and values are computed from x
        self, x: Tensor, mask: Tensor | None = None, need_trace: bool = False, change: HeadChange | None = None
    ) -> tuple[Tensor, AttentionTrace | None]:
        """x [B, T, D] → output [B, T, D] and, with `need_trace`, the trace of all heads"""
        q, k, v = self._project(x)
        bias = None
        if self.positions == "alibi":
            bias = alibi(self.n_heads, distances(x.shape[1], x.shape[1], x.device), q.dtype)
        return self.attend_heads(q, KeyValue(k, v), mask, self.causal, need_trace, change, bias)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x to queries, keys and values, and rotate queries and keys if positions are rotary."""
        if not self.training:
            return self._rotate(self.queries(x), *self.keys_values(x))
        weight = torch.cat([self.query.matrix, self.key_value.matrix])
        bias = None if self.query.bias is None else torch.cat([self.query.bias, self.key_value.bias])
        y = linear(x, weight, bias)  # all three with one product
        d_k, d_v = self.widths
        n, m = self.n_heads, self.n_kv_heads
        is_rotated = self._has_rotation_kernel(y)
        if is_rotated:
            from regard.nn.kernels.rotation import FusedRotation

            y = FusedRotation.apply(y, n + m, d_k, self.rope.theta)
        q, k, v = split_columns(y, [n * d_k, m * d_k, m * d_v])
        q, k, v = _split_heads(q, n), _split_heads(k, m), _split_heads(v, m)
        return (q, k, v) if is_rotated else self._rotate(q, k, v)

    def _has_rotation_kernel(self, y: Tensor) -> bool:
        """Whether queries and keys in y are rotated by our own kernel"""
        if self.positions != "rotary" or self.rope.scaling or not fused_kernels() or not is_half(y):
            return False
        from regard.nn.kernels.rotation import fits

        return fits(self.widths[0])

    def _rotate(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotate queries and keys if positions are rotary."""
        if self.positions != "rotary":
            return q, k, v
        angles = self.rotation(torch.arange(q.shape[-2], device=q.device), q.dtype)
        return rotate(q, angles), rotate(k, angles), v

    def rotation(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        """Return the angles of rotary positions; every layer of a stack has the same."""
        return rotation(positions, self.widths[0], dtype, self.rope)

    def start(self, rows: int, like: Tensor) -> KvCache:
        """Return an empty key-value cache."""
        return KvCache(like.new_empty(rows, 0, 1, self.key_value.out_features))

    def step(
        self, x: Tensor, past: KvCache, places: Places, change: HeadChange | None = None
    ) -> tuple[Tensor, KvCache]:
        """Process the next tokens x [R, n, D] → their outputs [R, n, D] and the cache, to which theirs are added"""
        if self.joint is None:
            q, new = self.query(x), self.key_value(x)
        else:
            q, new = self.joint(x).split([self.query.out_features, self.key_value.out_features], dim=-1)
        if self.positions == "rotary":
            q, new = self._rotate_new(q, new, places)
        if self.positions != "alibi" and self.has_step_kernel(x):
            from regard.nn.kernels.cached_attention import attend_cached

            cache = past if past.room == places.room else past.with_room(places.room)
            heads = attend_cached(q, new, cache.entries, places.ancestors, places.positions, places.length, self.shape)
            return self.join_heads(heads.unflatten(-1, (self.n_heads, -1)).transpose(1, 2), change), cache
        cache = past.write(places, new)
        k, v = places.attended(cache).split([self.n_kv_heads * width for width in self.widths], dim=-1)
        memory = KeyValue(_split_heads(k, self.n_kv_heads), _split_heads(v, self.n_kv_heads))
        queries = _split_heads(q.reshape(k.shape[0], -1, q.shape[-1]), self.n_heads)
        mask = places.added_mask.to(q.dtype) if self.fused else places.mask
        bias = alibi(self.n_heads, places.distances, q.dtype) if self.positions == "alibi" else None
        y, _ = self.attend_heads(queries, memory, mask, False, False, change, bias)
        return y.reshape(x.shape), cache

    def state_size(self, n_tokens: int) -> int:
        """Numbers that the cache holds per row after `n_tokens`: a key and a value each."""
        return self.key_value.out_features * n_tokens

    def _rotate_new(self, q: Tensor, new: Tensor, places: Places) -> tuple[Tensor, Tensor]:
        """Rotate the queries [R, n, H · K] and the keys in the new entries [R, n, C]."""
        angles = places.rotation(self.widths[0], q.dtype, self.rope)
        k, v = new.split([self.n_kv_heads * width for width in self.widths], dim=-1)
        q, k = (rotate(t.unflatten(-1, (-1, self.widths[0])), angles).flatten(2) for t in (q, k))
        return q, torch.cat([k, v], dim=-1)


def _split_heads(x: Tensor, n_heads: int) -> Tensor:
    """[B, T, H·K] → [B, H, T, K]"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _expand_mask(mask: Tensor | None, like: Tensor) -> Tensor:
    """Expand a mask to the shape of the scores; None allows everything."""
    return (torch.ones((), dtype=torch.bool, device=like.device) if mask is None else mask).expand_as(like)


def _combine_masks(mask: Tensor | None, other: Tensor) -> Tensor:
    return other if mask is None else mask & other
