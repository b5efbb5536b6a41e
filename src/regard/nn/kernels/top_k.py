"""The k largest numbers of each row, for a small k and long rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_CHUNK = 1024
"""Numbers per program, which is a single warp: more would wait for each other after every number found"""
_CHUNK_FOR_ONE = 4096


@triton.jit
def _top_k_kernel(
    x, ids, values_out, ids_out, n, k, row_stride, out_stride, CHUNK: tl.constexpr, HAS_IDS: tl.constexpr
):
    """One program per row and chunk: write the k largest numbers of the chunk, largest first."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = columns < n
    values = tl.load(x + row * row_stride + columns, mask=inside, other=-float("inf"))
    # A whole number that sorts like (value, −column): one maximum finds both. NaN is the largest, as in torch.
    bits = values.to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    ordered = tl.where(values == values, ordered, 0x7FFFFFFF)
    keys = (ordered.to(tl.int64) << 32) | (0x7FFFFFFF - columns).to(tl.int64)
    keys = tl.where(inside, keys, -0x7FFFFFFFFFFFFFFF)
    for i in range(k):
        best = tl.max(keys, 0)
        at = 0x7FFFFFFF - (best & 0x7FFFFFFF)
        found = best > -0x7FFFFFFFFFFFFFFF
        at = tl.where(found, at, 0)
        number = at
        if HAS_IDS:
            number = tl.load(ids + row * row_stride + at)
        largest = (best >> 32).to(tl.int32)
        largest = tl.where(largest < 0, largest ^ 0x7FFFFFFF, largest).to(tl.float32, bitcast=True)
        out = row * out_stride + chunk * k + i
        tl.store(values_out + out, tl.where(found, largest, -float("inf")))
        tl.store(ids_out + out, number)
        keys = tl.where(keys == best, -0x7FFFFFFFFFFFFFFF, keys)


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest numbers of each row of x [R, n] float32 and their columns, largest first, each [R, k].

    Of equal numbers the one further left comes first.
    """
    ids: Tensor | None = None
    while True:
        rows, n = x.shape
        chunk = min(_CHUNK_FOR_ONE if k == 1 else _CHUNK, max(16, triton.next_power_of_2(n)))
        n_chunks = triton.cdiv(n, chunk)
        values_out = torch.empty(rows, n_chunks * k, dtype=x.dtype, device=x.device)
        ids_out = torch.empty(rows, n_chunks * k, dtype=torch.int64, device=x.device)
        _top_k_kernel[rows, n_chunks](
            x, ids_out if ids is None else ids, values_out, ids_out, n, k, x.stride(0), n_chunks * k,
            CHUNK=chunk, HAS_IDS=ids is not None, num_warps=max(1, chunk // 1024),
        )  # fmt: skip
        if n_chunks == 1:
            return values_out, ids_out
        x, ids = values_out, ids_out
