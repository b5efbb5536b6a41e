"""Attention of short sequences: one program computes a whole head of a sentence, forward and backward.

At the lengths of sentences attention is limited by memory, and general kernels read and write more than is needed:
they keep statistics, convert gradients and process the queries in blocks.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 128
WIDTHS = (16, 32, 64, 128)
_NUMBERS_PER_WARP = 1024
"""Attention weights that a warp computes"""


@triton.jit
def _load(matrix, rows, columns, stride, n):
    return tl.load(matrix + rows[:, None] * stride + columns[None, :], mask=(rows < n)[:, None], other=0.0)


@triton.jit
def _weights(q, k, mask, i, j, n_keys, scale, CAUSAL: tl.constexpr, MASKED: tl.constexpr):
    """Return the attention weights of queries i and keys j of one head in float32."""
    e = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    allowed = (j < n_keys)[None, :] & (i >= 0)[:, None]
    if CAUSAL:
        allowed = allowed & (j[None, :] <= i[:, None])
    if MASKED:
        allowed = allowed & (tl.load(mask + j, mask=j < n_keys, other=0) != 0)[None, :]
    e = tl.where(allowed, e, -1e30)
    e = tl.exp(e - tl.max(e, 1)[:, None])
    return e / tl.sum(e, 1)[:, None]


@triton.jit(do_not_specialize=["mask_batch", "n_queries", "n_keys"])
def _attention_kernel(
    q, k, v, mask, out, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    o_batch, o_head, o_row, mask_batch, n_heads, n_queries, n_keys, scale,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(0) // n_heads).to(tl.int64)
    head = tl.program_id(0) % n_heads
    i, j, columns = tl.arange(0, SIZE), tl.arange(0, SIZE), tl.arange(0, WIDTH)
    queries = _load(q + batch * q_batch + head * q_head, i, columns, q_row, n_queries)
    keys = _load(k + batch * k_batch + head * k_head, j, columns, k_row, n_keys)
    values = _load(v + batch * v_batch + head * v_head, j, columns, v_row, n_keys)
    p = _weights(queries, keys, mask + batch * mask_batch, i, j, n_keys, scale, CAUSAL, MASKED)
    result = tl.dot(p.to(values.dtype), values, input_precision="ieee")
    place = out + batch * o_batch + head * o_head + i[:, None] * o_row + columns[None, :]
    tl.store(place, result.to(out.dtype.element_ty), mask=(i < n_queries)[:, None])


@triton.jit(do_not_specialize=["mask_batch", "n_queries", "n_keys"])
def _attention_backward_kernel(
    q, k, v, mask, d_out, dq, dk, dv, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    o_batch, o_head, o_row, dq_batch, dq_head, dq_row, dk_batch, dk_head, dk_row, dv_batch, dv_head, dv_row,
    mask_batch, n_heads, n_queries, n_keys, scale,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(0) // n_heads).to(tl.int64)
    head = tl.program_id(0) % n_heads
    i, j, columns = tl.arange(0, SIZE), tl.arange(0, SIZE), tl.arange(0, WIDTH)
    queries = _load(q + batch * q_batch + head * q_head, i, columns, q_row, n_queries)
    keys = _load(k + batch * k_batch + head * k_head, j, columns, k_row, n_keys)
    p = _weights(queries, keys, mask + batch * mask_batch, i, j, n_keys, scale, CAUSAL, MASKED)
    d = _load(d_out + batch * o_batch + head * o_head, i, columns, o_row, n_queries)
    d_values = tl.dot(tl.trans(p.to(d.dtype)), d, input_precision="ieee")
    place = dv + batch * dv_batch + head * dv_head + j[:, None] * dv_row + columns[None, :]
    tl.store(place, d_values.to(dv.dtype.element_ty), mask=(j < n_keys)[:, None])
    values = _load(v + batch * v_batch + head * v_head, j, columns, v_row, n_keys)
    dp = tl.dot(d, tl.trans(values), input_precision="ieee")
    de = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(keys.dtype)
    d_queries = tl.dot(de, keys, input_precision="ieee")
    place = dq + batch * dq_batch + head * dq_head + i[:, None] * dq_row + columns[None, :]
    tl.store(place, d_queries.to(dq.dtype.element_ty), mask=(i < n_queries)[:, None])
    d_keys = tl.dot(tl.trans(de), queries, input_precision="ieee")
    place = dk + batch * dk_batch + head * dk_head + j[:, None] * dk_row + columns[None, :]
    tl.store(place, d_keys.to(dk.dtype.element_ty), mask=(j < n_keys)[:, None])


def fits(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """Return whether `FusedShortAttention` computes this attention: short, one width, and a bool mask of keys only."""
    same = q.shape[1] == k.shape[1] and q.shape[-1] == k.shape[-1] == v.shape[-1] and q.shape[-1] in WIDTHS
    keys_only = mask is None or (mask.dtype == torch.bool and tuple(mask.shape) == (q.shape[0], 1, 1, k.shape[2]))
    return same and keys_only and max(q.shape[2], k.shape[2]) <= LONGEST


class FusedShortAttention(torch.autograd.Function):
    """Scaled dot-product attention of q [B, H, Tq, K] to k and v [B, H, Tk, K], with mask [B, 1, 1, Tk] or None.

    The gradients lie in memory like q, k and v, so that those of one projection need not be concatenated.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        q, k, v = (_with_dense_rows(tensor) for tensor in (q, k, v))
        out = q.new_empty(q.shape[0], q.shape[2], q.shape[1], q.shape[3]).transpose(1, 2)
        ctx.save_for_backward(q, k, v, mask)
        ctx.causal = causal
        strides = [stride for tensor in (q, k, v, out) for stride in tensor.stride()[:3]]
        shared, constants = _launch_options(q, k, mask, causal)
        _attention_kernel[(q.shape[0] * q.shape[1],)](
            q, k, v, k if mask is None else mask, out, *strides, *shared, **constants
        )
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        q, k, v, mask = ctx.saved_tensors
        d_out = _with_dense_rows(gradients[0])
        dq, dk, dv = empty_alike([q, k, v])
        strides = [stride for tensor in (q, k, v, d_out, dq, dk, dv) for stride in tensor.stride()[:3]]
        shared, constants = _launch_options(q, k, mask, ctx.causal)
        tensors = (q, k, v, k if mask is None else mask, d_out, dq, dk, dv)
        _attention_backward_kernel[(q.shape[0] * q.shape[1],)](*tensors, *strides, *shared, **constants)
        return dq, dk, dv, None, None


def _launch_options(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool
) -> tuple[tuple[float, ...], dict[str, Any]]:
    """Return the arguments that both kernels share."""
    n_queries, n_keys, width = q.shape[2], k.shape[2], q.shape[3]
    size = max(16, triton.next_power_of_2(max(n_queries, n_keys)))  # one for both: fewer kernels to compile
    warps = min(8, max(1, size * size // _NUMBERS_PER_WARP))
    mask_batch = 0 if mask is None else mask.stride(0)
    shared = (mask_batch, q.shape[1], n_queries, n_keys, 1 / math.sqrt(width))
    sizes = {"SIZE": size, "WIDTH": width, "num_warps": warps}
    return shared, {**sizes, "CAUSAL": causal, "MASKED": mask is not None}


def _with_dense_rows(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def empty_alike(tensors: list[Tensor]) -> list[Tensor]:
    """Return empty tensors that lie in memory as the given ones do: side by side if those are slices of one tensor."""
    groups: dict[int, list[int]] = {}
    for i, tensor in enumerate(tensors):
        groups.setdefault(tensor.untyped_storage().data_ptr(), []).append(i)
    results: dict[int, Tensor] = {}
    for group in groups.values():
        results |= zip(group, _empty_slices([tensors[i] for i in group]), strict=True)
    return [results[i] for i in range(len(tensors))]


def _empty_slices(tensors: list[Tensor]) -> list[Tensor]:
    start = min(t.storage_offset() for t in tensors)
    end = 1 + max(
        t.storage_offset() + sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True)) for t in tensors
    )
    if end - start != sum(t.numel() for t in tensors):  # there are gaps
        return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors]
    memory = tensors[0].new_empty(end - start)
    return [memory.as_strided(t.shape, t.stride(), t.storage_offset() - start) for t in tensors]
