"""Linear maps, with GELU or without, whose bias gradient is summed by a kernel that is faster than torch's."""

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.column_sums import column_sums, row_programs

_ROWS, _COLUMNS = 32, 128


class FusedLinear(torch.autograd.Function):
    """x [..., D], weight [E, D], bias [E] → x Wᵀ + b"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        d = gradients[0].flatten(0, -2).contiguous()
        return *_product_gradients(d, x, weight), column_sums(d).to(weight.dtype)


class FusedLinearGelu(torch.autograd.Function):
    """x [..., D], weight [E, D], bias [E] → GELU(x Wᵀ + b)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        z = F.linear(x, weight, bias)
        ctx.save_for_backward(x, weight, z)
        return F.gelu(z)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight, z = ctx.saved_tensors
        d, sums = _gelu_gradient(z.flatten(0, -2), gradients[0].flatten(0, -2).contiguous())
        return *_product_gradients(d, x, weight), sums.to(weight.dtype)


def _product_gradients(d: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of the weight, given that of the output, d [N, E]."""
    return (d @ weight).view(x.shape), d.t() @ x.flatten(0, -2)


@triton.jit(do_not_specialize=["n_rows"])
def _gelu_gradient_kernel(z, d_out, d_z, sums, n_rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(1) * ROWS, n_rows, tl.num_programs(1) * ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < n_rows)[:, None] & (columns < width)[None, :]
        at = rows[:, None].to(tl.int64) * width + columns[None, :]
        x = tl.load(z + at, mask=inside, other=0.0).to(tl.float32)
        d = tl.load(d_out + at, mask=inside, other=0.0).to(tl.float32)
        # GELU'(x) = Φ(x) + x φ(x), with the distribution Φ and the density φ of a standard normal variable
        d = d * (0.5 + 0.5 * tl.erf(x * 0.7071067811865476) + x * tl.exp(-0.5 * x * x) * 0.3989422804014327)
        tl.store(d_z + at, d.to(d_z.dtype.element_ty), mask=inside)
        total += d
    tl.store(sums + tl.program_id(1) * width + columns, tl.sum(total, 0), mask=columns < width)


def _gelu_gradient(z: Tensor, d_out: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of z [N, E], given that of GELU(z), and the sums of its columns."""
    n_rows, width = z.shape
    n_programs = row_programs(n_rows, width)
    d_z = torch.empty_like(z)
    sums = torch.empty(n_programs, width, dtype=torch.float32, device=z.device)
    grid = (triton.cdiv(width, _COLUMNS), n_programs)
    _gelu_gradient_kernel[grid](z, d_out, d_z, sums, n_rows, width, ROWS=_ROWS, COLUMNS=_COLUMNS)
    return d_z, column_sums(sums)
