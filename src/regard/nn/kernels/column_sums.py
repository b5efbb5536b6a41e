"""Sums of the columns of a matrix, in a fixed order: each program adds some rows, a second pass adds the programs."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_PROGRAMS = 1056


@triton.jit(do_not_specialize=["n_rows"])
def _column_sums_kernel(x, out, n_rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(1) * ROWS, n_rows, tl.num_programs(1) * ROWS):
        rows = start + tl.arange(0, ROWS)
        at = rows[:, None].to(tl.int64) * width + columns[None, :]
        total += tl.load(x + at, mask=(rows < n_rows)[:, None] & (columns < width)[None, :], other=0.0).to(tl.float32)
    sums = tl.sum(total, 0).to(out.dtype.element_ty)
    tl.store(out + tl.program_id(1) * width + columns, sums, mask=columns < width)


def column_sums(x: Tensor) -> Tensor:
    """Return x.sum(0) in float32 for x [N, D] that is contiguous."""
    n_rows, width = x.shape
    if n_rows <= _PROGRAMS:
        return _add_rows(x, 1, rows=64, columns=32)[0]
    return _add_rows(_add_rows(x, row_programs(n_rows, width), rows=32, columns=128), 1, rows=64, columns=32)[0]


def row_programs(n_rows: int, width: int) -> int:
    """Return how many programs share the rows, if each processes 128 columns."""
    return min(max(1, _PROGRAMS // triton.cdiv(width, 128)), triton.cdiv(n_rows, 64))


def _add_rows(x: Tensor, n_programs: int, rows: int, columns: int) -> Tensor:
    """Return [n_programs, D], the sums of the rows i, i + n_programs, … (in blocks) of x [N, D]."""
    n_rows, width = x.shape
    out = torch.empty(n_programs, width, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(width, columns), n_programs)
    _column_sums_kernel[grid](x, out, n_rows, width, ROWS=rows, COLUMNS=columns)
    return out
