"""Attention of single tokens to a key-value cache or to a source, in one kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kv_cache import HeadShape

_BLOCK = 32
"""Keys that a program processes at a time"""


@triton.jit
def _attend_kernel(
    q, new, keys, values, ancestors, positions, mask, out,
    q_stride, new_stride, k_group_stride, k_head_stride, k_stride, v_group_stride, v_head_stride, v_stride,
    slot_stride, mask_stride, n_keys, room, width, scale,
    N_HEADS: tl.constexpr, GROUP: tl.constexpr, D_KEY: tl.constexpr, D_VALUE: tl.constexpr,
    K_WIDTH: tl.constexpr, V_WIDTH: tl.constexpr, BLOCK: tl.constexpr, CACHED: tl.constexpr,
):  # fmt: skip
    """One program per hypothesis and head. With CACHED it writes the new key and value into the cache first."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    kv_head = head // GROUP
    group, slot = row // width, row % width
    k_columns, v_columns = tl.arange(0, K_WIDTH), tl.arange(0, V_WIDTH)
    in_key, in_value = k_columns < D_KEY, v_columns < D_VALUE
    query = tl.load(q + row * q_stride + head * D_KEY + k_columns, mask=in_key, other=0.0).to(tl.float32) * scale
    group_keys = keys + group * k_group_stride + kv_head * k_head_stride
    group_values = values + group * v_group_stride + kv_head * v_head_stride
    best = tl.full([1], -float("inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    output = tl.zeros([V_WIDTH], tl.float32)
    own = 0
    end = n_keys
    if CACHED:
        own = tl.load(positions + row)
        end = tl.minimum(n_keys, own).to(tl.int32)
        n_kv_heads = N_HEADS // GROUP
        new_key = tl.load(new + row * new_stride + kv_head * D_KEY + k_columns, mask=in_key, other=0.0)
        new_value = tl.load(
            new + row * new_stride + n_kv_heads * D_KEY + kv_head * D_VALUE + v_columns, mask=in_value, other=0.0
        )
        tl.store(group_keys + own * k_stride + slot * slot_stride + k_columns, new_key, mask=in_key)
        tl.store(group_values + own * v_stride + slot * slot_stride + v_columns, new_value, mask=in_value)
        best = tl.sum(query * new_key.to(tl.float32), 0) + tl.zeros([1], tl.float32)
        total = tl.full([1], 1.0, tl.float32)
        output = new_value.to(tl.float32)
    for start in range(0, end, BLOCK):
        s = start + tl.arange(0, BLOCK)
        seen = s < end
        k_at, v_at = s.to(tl.int64) * k_stride, s.to(tl.int64) * v_stride
        bias = tl.zeros([BLOCK], tl.float32)
        if CACHED:
            ancestor = tl.load(ancestors + row * room + s, mask=seen, other=-1)
            seen = ancestor >= 0
            k_at += ancestor * slot_stride
            v_at += ancestor * slot_stride
        else:
            bias = tl.load(mask + group * mask_stride + s, mask=seen, other=-float("inf")).to(tl.float32)
        k = tl.load(group_keys + k_at[:, None] + k_columns[None, :], mask=seen[:, None] & in_key[None, :], other=0.0)
        v = tl.load(
            group_values + v_at[:, None] + v_columns[None, :], mask=seen[:, None] & in_value[None, :], other=0.0
        )
        scores = tl.where(seen, tl.sum(k.to(tl.float32) * query[None, :], 1) + bias, -float("inf"))
        new_best = tl.maximum(best, tl.max(scores, 0))
        safe = tl.where(new_best == -float("inf"), 0.0, new_best)
        weights = tl.exp(scores - safe)
        decay = tl.exp(best - safe)
        total = total * decay + tl.sum(weights, 0)
        output = output * decay + tl.sum(v.to(tl.float32) * weights[:, None], 0)
        best = new_best
    output = output / total
    tl.store(out + (row * N_HEADS + head) * D_VALUE + v_columns, output.to(out.dtype.element_ty), mask=in_value)


def attend_cached(
    q: Tensor, new: Tensor, entries: Tensor, ancestors: Tensor, positions: Tensor, length: int, shape: HeadShape
) -> Tensor:
    """Write new keys and values [R, 1, C] into a cache [G, T, w, C], and attend to what each hypothesis sees of it.

    q [R, 1, H · K], ancestors [G, w, T], positions [R, 1] of the new tokens → [R, 1, H · V]. Only the first `length`
    positions are looked at.
    """
    width, room = ancestors.shape[1:]
    values = entries[..., shape.n_kv_heads * shape.d_key :]
    out = torch.empty(len(q), 1, shape.n_heads * shape.d_value, dtype=q.dtype, device=q.device)
    _attend_kernel[len(q), shape.n_heads](
        q, new, entries, values, ancestors, positions, q, out,
        q.stride(0), new.stride(0), entries.stride(0), shape.d_key, entries.stride(1),
        entries.stride(0), shape.d_value, entries.stride(1), entries.stride(2), 0,
        length, room, width, shape.d_key**-0.5, CACHED=True, num_warps=1, **_sizes(shape),
    )  # fmt: skip
    return out


def attend_source(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, shape: HeadShape) -> Tensor:
    """Attend from hypotheses q [R, 1, H · K] to the sources of their sentences → [R, 1, H · V]

    keys [N, H, S, K], values [N, H, S, V], mask [N, 1, 1, S] is added to the scores.
    """
    n, _, n_keys, _ = keys.shape
    out = torch.empty(len(q), 1, shape.n_heads * shape.d_value, dtype=q.dtype, device=q.device)
    _attend_kernel[len(q), shape.n_heads](
        q, q, keys, values, q, q, mask, out,
        q.stride(0), 0, *keys.stride()[:3], *values.stride()[:3], 0, mask.stride(0),
        n_keys, 0, len(q) // n, shape.d_key**-0.5, CACHED=False, num_warps=1, **_sizes(shape),
    )  # fmt: skip
    return out


def _sizes(shape: HeadShape) -> dict[str, int]:
    return {
        "N_HEADS": shape.n_heads,
        "GROUP": shape.n_heads // shape.n_kv_heads,
        "D_KEY": shape.d_key,
        "D_VALUE": shape.d_value,
        "K_WIDTH": max(16, triton.next_power_of_2(shape.d_key)),
        "V_WIDTH": max(16, triton.next_power_of_2(shape.d_value)),
        "BLOCK": _BLOCK,
    }
