"""Rotary positions: queries and keys are rotated in one pass over the projection that they are columns of."""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit(do_not_specialize=["n_tokens"])
def _rotation_kernel(
    x, out, n_tokens, n_heads, n_rest, sign, log_base,
    HEADS: tl.constexpr, HALF: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i, head = tl.arange(0, HALF), tl.arange(0, HEADS)
    angle = (row % n_tokens).to(tl.float32) * tl.exp2(i.to(tl.float32) * (-log_base / HALF))
    cos, sin = tl.cos(angle)[None, :], sign * tl.sin(angle)[None, :]
    start = row * (n_heads * 2 * HALF + n_rest)
    at = start + head[:, None] * (2 * HALF) + i[None, :]
    inside = (head < n_heads)[:, None] & (i >= 0)[None, :]
    left = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(x + at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, (left * cos - right * sin).to(out.dtype.element_ty), mask=inside)
    tl.store(out + at + HALF, (right * cos + left * sin).to(out.dtype.element_ty), mask=inside)
    if REST:
        column = tl.arange(0, REST)
        at = start + n_heads * 2 * HALF + column
        tl.store(out + at, tl.load(x + at, mask=column < n_rest, other=0.0), mask=column < n_rest)


class FusedRotation(torch.autograd.Function):
    """Rotate the first `n_heads` heads of width K in x [B, T, C] by their positions 0 … T − 1; see `rotation`.

    The gradient is rotated back.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, n_heads: int, width: int, base: float) -> Tensor:
        ctx.options = (n_heads, width, base)
        return _rotate(x, 1.0, *ctx.options)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return _rotate(gradients[0], -1.0, *ctx.options), None, None, None


def fits(width: int) -> bool:
    """Return whether `FusedRotation` rotates heads of this width."""
    return width >= 2 and width & (width - 1) == 0


def _rotate(x: Tensor, sign: float, n_heads: int, width: int, base: float) -> Tensor:
    x = x.contiguous()
    out, n_rest = torch.empty_like(x), x.shape[-1] - n_heads * width
    sizes = {"HEADS": triton.next_power_of_2(n_heads), "HALF": width // 2}
    sizes["REST"] = triton.next_power_of_2(n_rest) if n_rest else 0
    _rotation_kernel[(x.shape[0] * x.shape[1],)](
        x, out, x.shape[1], n_heads, n_rest, sign, math.log2(base), **sizes, num_warps=2
    )
    return out
