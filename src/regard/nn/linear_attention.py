"""Linear attention: without the softmax, Σ_i (q · k_i) v_i = qᵀ Σ_i k_i v_iᵀ, and one sum serves every query.

All functions take queries and keys after the feature map, φ(q) and φ(k).
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
    """φ(x) = elu(x) + 1 (Katharopoulos et al. 2020): x + 1 above zero, eˣ below; no weight is negative"""
    # Not written as elu(x) + 1, because (eˣ − 1) + 1 rounds a small eˣ away.
    # Cast back to the type of x, because autocast computes exp in float32.
    return (x.clamp(max=0).exp() + x.relu()).to(x.dtype)


FEATURE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {"identity": identity, "elu": elu_plus_one}


class LinearState(NamedTuple):
    """The sums over all earlier positions: kv [B, H, K, Dv] = Σ φ(k) vᵀ, k [B, H, K] = Σ φ(k)"""

    kv: Tensor
    k: Tensor

    def select(self, rows: Tensor) -> "LinearState":
        return LinearState(self.kv.index_select(0, rows), self.k.index_select(0, rows))


def empty_state(rows: int, n_heads: int, d_key: int, d_value: int, like: Tensor) -> LinearState:
    """Return the state before the first position, on the device of `like`, in float32 or wider."""
    zeros = like.new_zeros(rows, n_heads, d_key, d_value, dtype=_at_least_float32(like.dtype))
    return LinearState(zeros, zeros.new_zeros(rows, n_heads, d_key))


def add_to_state(state: LinearState, k: Tensor, v: Tensor) -> LinearState:
    """Return the state after further keys φ(k) [B, H, T, K] and values [B, H, T, Dv]."""
    return LinearState(state.kv + k.mT @ v, state.k + k.sum(-2))


def read_state(state: LinearState, q: Tensor, normalise: bool) -> Tensor:
    """y = φ(q)ᵀ Σ φ(k) vᵀ, divided by φ(q)ᵀ Σ φ(k) if `normalise`;  φ(q) [B, H, T, K] → [B, H, T, Dv]"""
    q_wide = q.to(state.kv.dtype)
    y = q_wide @ state.kv
    if normalise:
        y = _divide(y, q_wide @ state.k[..., None])
    return y.to(q.dtype)


def linear_attention(q: Tensor, k: Tensor, v: Tensor, normalise: bool, mask: Tensor | None = None) -> Tensor:
    """y_t = Σ_i (φ(q_t) · φ(k_i)) v_i, divided by the sum of the weights if `normalise`, in O(Tq + Tk)

    q [B, H, Tq, K], k [B, H, Tk, K], v [B, H, Tk, Dv], mask [B, 1, 1, Tk] with True = may attend → [B, H, Tq, Dv]
    """
    if mask is not None:
        k = k.masked_fill(~mask.mT, 0)
    return read_state(LinearState(k.mT @ v, k.sum(-2)), q, normalise)


def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor, normalise: bool) -> Tensor:
    """y_t = Σ_{i ≤ t} (φ(q_t) · φ(k_i)) v_i, divided by the sum of the weights if `normalise`, in O(T)

    Within a chunk the weights are computed directly; earlier chunks come in through their running sum.
    q, k [B, H, T, K], v [B, H, T, Dv] → [B, H, T, Dv]
    """
    length = q.shape[-2]
    q, k, v = _chunks(q), _chunks(k), _chunks(v)
    weights = (q @ k.mT).tril()  # [B, H, n, C, C]
    y = weights @ v + q @ _sum_before(k.mT @ v)
    if normalise:
        y = _divide(y, weights.sum(-1, keepdim=True) + q @ _sum_before(k.sum(-2)[..., None]))
    return y.flatten(2, 3)[:, :, :length]


def linear_weights(q: Tensor, k: Tensor, normalise: bool, mask: Tensor | None = None) -> Tensor:
    """The weights φ(q_t) · φ(k_i), divided by their sum over i if `normalise`, in O(Tq · Tk)

    q [B, H, Tq, K], k [B, H, Tk, K], mask broadcastable to the weights with True = may attend → [B, H, Tq, Tk]
    """
    weights = q @ k.mT
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return _divide(weights, weights.sum(-1, keepdim=True)) if normalise else weights


def _chunks(x: Tensor) -> Tensor:
    """Split [B, H, T, K] into chunks [B, H, n, C, K], padded with zeros: a zero key adds nothing to a sum."""
    n = (x.shape[2] + CHUNK - 1) // CHUNK
    return F.pad(x, (0, 0, 0, n * CHUNK - x.shape[2])).unflatten(2, (n, CHUNK))


def _sum_before(x: Tensor) -> Tensor:
    """Sum over all earlier chunks, Σ_{m < n} x_m for every chunk n;  [B, H, n, K, Dv] → [B, H, n, K, Dv]"""
    return F.pad(x, (0, 0, 0, 0, 1, -1)).cumsum(2, dtype=_at_least_float32(x.dtype)).to(x.dtype)


def _divide(y: Tensor, total: Tensor) -> Tensor:
    """y / total; where the total is 0 there was no key, and y stays 0."""
    return (y / total.masked_fill(total == 0, 1)).to(y.dtype)


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """float32 or wider: a running sum in bf16 loses small terms."""
    return torch.promote_types(dtype, torch.float32)
