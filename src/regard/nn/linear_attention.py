"""Linear attention: without the softmax, Σ_i (q · k_i) v_i = qᵀ Σ_i k_i v_iᵀ, and one sum serves every query.

The functions take queries and keys that a feature map has already gone over, φ(q) and φ(k).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64


def identity(x: Tensor) -> Tensor:
    """φ(x) = x: the dot product itself"""
    return x


def elu_plus_one(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1 (Katharopoulos et al. 2020): x + 1 above zero, eˣ below, so that no weight is negative"""
    # Not elu(x) + 1 word for word: (eˣ − 1) + 1 rounds a small eˣ away.
    # Back to x's own type, as autocast takes exp up to float32.
    return (x.clamp(max=0).exp() + x.relu()).to(x.dtype)


FEATURES: dict[str, Callable[[Tensor], Tensor]] = {"identity": identity, "elu": elu_plus_one}


class LinearState(NamedTuple):
    """All that the past leaves behind: kv [B, H, K, Dv] = Σ φ(k) vᵀ, k [B, H, K] = Σ φ(k)."""

    kv: Tensor
    k: Tensor

    def select(self, rows: Tensor) -> "LinearState":
        return LinearState(self.kv.index_select(0, rows), self.k.index_select(0, rows))


def empty_state(rows: int, n_heads: int, d_key: int, d_value: int, like: Tensor) -> LinearState:
    """The state before the first position, on the device of `like` and in float32 at least, as sums want."""
    zeros = like.new_zeros(rows, n_heads, d_key, d_value, dtype=_wide(like.dtype))
    return LinearState(zeros, zeros.new_zeros(rows, n_heads, d_key))


def add(state: LinearState, k: Tensor, v: Tensor) -> LinearState:
    """The state after the further keys φ(k) [B, H, T, K] and values [B, H, T, Dv]."""
    return LinearState(state.kv + k.mT @ v, state.k + k.sum(-2))


def read(state: LinearState, q: Tensor, normalise: bool) -> Tensor:
    """y = φ(q)ᵀ Σ φ(k) vᵀ, over φ(q)ᵀ Σ φ(k) if normalised;  φ(q) [B, H, T, K] → [B, H, T, Dv]"""
    wide = q.to(state.kv.dtype)
    y = wide @ state.kv
    if normalise:
        y = _over(y, wide @ state.k[..., None])
    return y.to(q.dtype)


def linear_attention(q: Tensor, k: Tensor, v: Tensor, normalise: bool, mask: Tensor | None = None) -> Tensor:
    """y_t = Σ_i (φ(q_t) · φ(k_i)) v_i over all keys, over the sum of the weights if normalised, in O(Tq + Tk)

    q [B, H, Tq, K], k [B, H, Tk, K], v [B, H, Tk, Dv], mask [B, 1, 1, Tk] with True = may attend → [B, H, Tq, Dv]
    """
    if mask is not None:
        k = k.masked_fill(~mask.mT, 0)
    return read(LinearState(k.mT @ v, k.sum(-2)), q, normalise)


def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor, normalise: bool) -> Tensor:
    """y_t = Σ_{i ≤ t} (φ(q_t) · φ(k_i)) v_i, over the sum of the weights if normalised, in O(T)

    The definition inside a chunk, plus what the running sum brings from the chunks before it.
    q, k [B, H, T, K], v [B, H, T, Dv] → [B, H, T, Dv]
    """
    length = q.shape[-2]
    q, k, v = _chunks(q), _chunks(k), _chunks(v)
    weights = (q @ k.mT).tril()  # [B, H, n, C, C]
    y = weights @ v + q @ _sum_before(k.mT @ v)
    if normalise:
        y = _over(y, weights.sum(-1, keepdim=True) + q @ _sum_before(k.sum(-2)[..., None]))
    return y.flatten(2, 3)[:, :, :length]


def linear_weights(q: Tensor, k: Tensor, normalise: bool, mask: Tensor | None = None) -> Tensor:
    """φ(q_t) · φ(k_i), over its sum over i if normalised: the weights themselves, in O(Tq · Tk)

    q [B, H, Tq, K], k [B, H, Tk, K], mask broadcastable to the weights with True = may attend → [B, H, Tq, Tk]
    """
    weights = q @ k.mT
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return _over(weights, weights.sum(-1, keepdim=True)) if normalise else weights


def _chunks(x: Tensor) -> Tensor:
    """[B, H, T, K] → [B, H, n, C, K], zeros behind the end: a zero key adds nothing to a sum."""
    n = (x.shape[2] + CHUNK - 1) // CHUNK
    return F.pad(x, (0, 0, 0, n * CHUNK - x.shape[2])).unflatten(2, (n, CHUNK))


def _sum_before(x: Tensor) -> Tensor:
    """Σ_{m < n} x_m for every chunk n;  [B, H, n, K, Dv] → [B, H, n, K, Dv]"""
    return F.pad(x, (0, 0, 0, 0, 1, -1)).cumsum(2, dtype=_wide(x.dtype)).to(x.dtype)


def _over(y: Tensor, total: Tensor) -> Tensor:
    """y / total, and y where the total is 0: there, no key was seen and y is 0 too."""
    return (y / total.masked_fill(total == 0, 1)).to(y.dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """float32 at least: a running sum in bf16 forgets what it adds up."""
    return torch.promote_types(dtype, torch.float32)
