"""Residual connection, dropout and normalisation in one kernel, forward and backward.

total = x + dropout(y) and out = norm(total). Dropout is a hash of the seed, the place in the model and the position of
the number, so that the backward pass draws it again instead of reading a mask.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.nn.kernels.column_sums import column_sums

_TILE = 4096
"""Numbers that a program of the forward pass processes at a time"""
_WARPS = 4
_BACKWARD_TILE = 512
_BACKWARD_WARPS = 2
_PROGRAMS = 2112
"""Most programs of the backward pass, each of which sums the weights' gradients over its rows"""


class DropoutPlace(NamedTuple):
    """Dropout with probability p at one place of a model."""

    p: float
    seed: Tensor
    """Two random 32-bit numbers"""
    number: int
    """Of the place"""

    @property
    def threshold(self) -> int:
        return min(round(self.p * 2**31), 2**31 - 1)


@triton.jit
def _is_kept(at, seed, place, threshold):
    """Return whether the number at each position is kept: its 31-bit hash is at least `threshold`."""
    first = tl.load(seed).to(tl.uint32, bitcast=True)
    second = tl.load(seed + 1).to(tl.uint32, bitcast=True)
    key = (second + place.to(tl.uint32)) * 0x9E3779B9
    x = at.to(tl.uint32) + first
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = x ^ key
    x = (x ^ (x >> 15)) * 0x846CA68B
    return (x >> 1).to(tl.int32) >= threshold


@triton.jit(do_not_specialize=["place", "threshold", "n_rows"])
def _forward_kernel(
    x, y, total, weight, bias, out, means, scales, seed, place, threshold, keep, n_rows, eps,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    HAS_Y: tl.constexpr, DROPS: tl.constexpr, NORM: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    inside = (rows < n_rows)[:, None] & (columns < WIDTH)[None, :]
    at = rows[:, None].to(tl.int64) * WIDTH + columns[None, :]
    z = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_Y:
        added = tl.load(y + at, mask=inside, other=0.0).to(tl.float32)
        if DROPS:
            added = tl.where(_is_kept(at, seed, place, threshold), added * keep, 0.0)
        rounded = (z + added).to(total.dtype.element_ty)
        tl.store(total + at, rounded, mask=inside)
        z = rounded.to(tl.float32)
    if NORM:
        if CENTRED:
            mean = tl.sum(z, 1) / WIDTH
            tl.store(means + rows, mean, mask=rows < n_rows)
            z = tl.where(inside, z - mean[:, None], 0.0)
        scale = tl.rsqrt(tl.sum(z * z, 1) / WIDTH + eps)
        tl.store(scales + rows, scale, mask=rows < n_rows)
        h = z * scale[:, None] * tl.load(weight + columns, mask=columns < WIDTH).to(tl.float32)[None, :]
        if CENTRED:
            h += tl.load(bias + columns, mask=columns < WIDTH).to(tl.float32)[None, :]
        tl.store(out + at, h.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["place", "threshold", "n_rows"])
def _backward_kernel(
    total, d_total, d_out, weight, means, scales, dx, dy, d_norm, seed, place, threshold, keep, n_rows,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    HAS_TOTAL: tl.constexpr, DROPS: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, COLUMNS)
    w = tl.load(weight + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)[None, :]
    d_weight = tl.zeros([ROWS, COLUMNS], tl.float32)
    d_bias = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(0) * ROWS, n_rows, tl.num_programs(0) * ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < n_rows)[:, None] & (columns < WIDTH)[None, :]
        at = rows[:, None].to(tl.int64) * WIDTH + columns[None, :]
        scale = tl.load(scales + rows, mask=rows < n_rows, other=0.0)[:, None]
        z = tl.load(total + at, mask=inside, other=0.0).to(tl.float32)
        if CENTRED:
            z = tl.where(inside, z - tl.load(means + rows, mask=rows < n_rows, other=0.0)[:, None], 0.0)
        z = z * scale
        g = tl.load(d_out + at, mask=inside, other=0.0).to(tl.float32)
        d_weight += g * z
        d_bias += g
        g = g * w
        d = g - z * (tl.sum(g * z, 1) / WIDTH)[:, None]
        if CENTRED:
            d -= (tl.sum(g, 1) / WIDTH)[:, None]
        d = d * scale
        if HAS_TOTAL:
            d += tl.load(d_total + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + at, d.to(dx.dtype.element_ty), mask=inside)
        if DROPS:
            d = tl.where(_is_kept(at, seed, place, threshold), d * keep, 0.0)
            tl.store(dy + at, d.to(dy.dtype.element_ty), mask=inside)
    sums = d_norm + 2 * WIDTH * tl.program_id(0) + columns
    tl.store(sums, tl.sum(d_weight, 0), mask=columns < WIDTH)
    tl.store(sums + WIDTH, tl.sum(d_bias, 0), mask=columns < WIDTH)


@triton.jit(do_not_specialize=["place", "threshold", "n"])
def _dropout_kernel(x, out, seed, place, threshold, keep, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    value = tl.where(_is_kept(at, seed, place, threshold), value * keep, 0.0)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=at < n)


def _tile(width: int, size: int, warps: int) -> dict[str, int]:
    columns = triton.next_power_of_2(width)
    return {"WIDTH": width, "COLUMNS": columns, "ROWS": max(1, size // columns), "num_warps": warps}


def _dropout_arguments(place: DropoutPlace | None, like: Tensor) -> tuple[Tensor, int, int, float]:
    """Return seed, place, threshold and the factor of numbers that are kept; unused values without dropout."""
    if place is None:
        return like, 0, 0, 1.0
    return place.seed, place.number, place.threshold, 1 / (1 - place.threshold / 2**31)


def _forward(
    x: Tensor, y: Tensor | None, norm: tuple[Tensor, Tensor | None, float] | None, place: DropoutPlace | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return total, out, and the mean and scale of each row; without y `total` is x, without norm `out` is unused."""
    n_rows, width = x.numel() // x.shape[-1], x.shape[-1]
    weight, bias, eps = norm or (x, None, 0.0)
    total = x if y is None else torch.empty_like(x)
    out = x if norm is None else torch.empty_like(x)
    means, scales = torch.empty(2, n_rows if norm else 0, dtype=torch.float32, device=x.device)
    flags = {"HAS_Y": y is not None, "DROPS": place is not None, "NORM": norm is not None, "CENTRED": bias is not None}
    tile = _tile(width, _TILE, _WARPS)
    tensors = (x, x if y is None else y, total, weight, weight if bias is None else bias, out, means, scales)
    grid = (triton.cdiv(n_rows, tile["ROWS"]),)
    _forward_kernel[grid](*tensors, *_dropout_arguments(place, x), n_rows, eps, **tile, **flags)
    return total, out, means, scales


class FusedResidualNorm(torch.autograd.Function):
    """(x, y) → total = x + dropout(y) and norm(total). Without y: x itself and norm(x)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float, p: DropoutPlace | None
    ) -> tuple[Tensor, Tensor]:
        x, y = x.contiguous(), None if y is None else y.contiguous()
        total, out, means, scales = _forward(x, y, (weight, bias, eps), p)
        ctx.save_for_backward(total, weight, means, scales, *(() if p is None else (p.seed,)))
        ctx.options = (None if p is None else (p.p, p.number), bias is not None, y is not None)
        ctx.set_materialize_grads(False)
        return total, out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        total, weight, means, scales, *seed = ctx.saved_tensors
        dropout, centred, has_y = ctx.options
        place = DropoutPlace(dropout[0], seed[0], dropout[1]) if dropout else None
        d_total, d_out = gradients
        assert d_out is not None
        n_rows, width = total.numel() // total.shape[-1], total.shape[-1]
        tile = _tile(width, _BACKWARD_TILE, _BACKWARD_WARPS)
        n_programs = min(_PROGRAMS, triton.cdiv(n_rows, 2 * tile["ROWS"]))
        dx = torch.empty_like(total)
        dy = torch.empty_like(total) if place else dx
        d_norm = torch.empty(n_programs, 2 * width, dtype=torch.float32, device=total.device)
        d_rest = dx if d_total is None else d_total.contiguous()
        tensors = (total, d_rest, d_out.contiguous(), weight, means, scales, dx, dy, d_norm)
        flags = {"HAS_TOTAL": d_total is not None, "DROPS": place is not None, "CENTRED": centred}
        _backward_kernel[(n_programs,)](*tensors, *_dropout_arguments(place, total), n_rows, **tile, **flags)
        d_weight, d_bias = column_sums(d_norm).to(weight.dtype).split(width)
        return dx, dy if has_y else None, d_weight, d_bias if centred else None, None, None


class FusedResidual(torch.autograd.Function):
    """(x, y) → x + dropout(y)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: DropoutPlace | None) -> Tensor:
        if p is not None:
            ctx.save_for_backward(p.seed)
        ctx.options = None if p is None else (p.p, p.number)
        return _forward(x.contiguous(), y.contiguous(), None, p)[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        d = gradients[0]
        if ctx.options is None:
            return d, d, None
        place = DropoutPlace(ctx.options[0], ctx.saved_tensors[0], ctx.options[1])
        d, dy = d.contiguous(), torch.empty_like(d, memory_format=torch.contiguous_format)
        grid = (triton.cdiv(d.numel(), _TILE),)
        _dropout_kernel[grid](d, dy, *_dropout_arguments(place, d), d.numel(), BLOCK=_TILE)
        return d, dy, None
