"""log Σ exp of each row, in one pass over long rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_CHUNK = 4096


@triton.jit
def _partial_kernel(x, tops, sums, n, row_stride, CHUNK: tl.constexpr):
    """One program per row and chunk: the maximum, and Σ exp(x − maximum)."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    values = tl.load(x + row * row_stride + columns, mask=columns < n, other=-float("inf"))
    top = tl.max(values, 0)
    safe = tl.where(top == -float("inf"), 0.0, top)
    out = row * tl.num_programs(1) + chunk
    tl.store(tops + out, top)
    tl.store(sums + out, tl.sum(tl.exp(values - safe), 0))


@triton.jit
def _combine_kernel(tops, sums, out, n_chunks, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    inside = columns < n_chunks
    top = tl.load(tops + row * n_chunks + columns, mask=inside, other=-float("inf"))
    total = tl.load(sums + row * n_chunks + columns, mask=inside, other=0.0)
    best = tl.max(top, 0)
    safe = tl.where(best == -float("inf"), 0.0, best)
    tl.store(out + row, tl.log(tl.sum(total * tl.exp(top - safe), 0)) + safe)


def log_sums(x: Tensor) -> Tensor:
    """Return log Σ_j exp(x_ij) of each row of x [R, n] float32 as [R, 1]."""
    rows, n = x.shape
    n_chunks = triton.cdiv(n, _CHUNK)
    tops = torch.empty(rows, n_chunks, dtype=torch.float32, device=x.device)
    sums, out = torch.empty_like(tops), torch.empty(rows, 1, dtype=torch.float32, device=x.device)
    _partial_kernel[rows, n_chunks](x, tops, sums, n, x.stride(0), CHUNK=_CHUNK)
    _combine_kernel[rows,](tops, sums, out, n_chunks, WIDTH=max(2, triton.next_power_of_2(n_chunks)), num_warps=1)
    return out
