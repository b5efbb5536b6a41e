"""Columns of one matrix product, such as queries, keys and values."""

from typing import Any

import torch
from torch import Tensor


def split_columns(x: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
    """Return x.split(sizes, dim=-1); gradients that lie side by side in memory are not copied to join them."""
    if torch.compiler.is_compiling() or not x.requires_grad:
        return x.split(sizes, dim=-1)
    return _Split.apply(x, sizes)


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
        return x.split(sizes, dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _join(gradients), None


def _join(parts: tuple[Tensor, ...]) -> Tensor:
    """Concatenate along the last dimension, without a copy if the parts are consecutive slices of one tensor."""
    first, width = parts[0], sum(part.shape[-1] for part in parts)
    offset = first.storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not same or part.stride() != first.stride() or part.storage_offset() != offset:
            return torch.cat(parts, dim=-1)
        offset += part.shape[-1]
    if first.stride(-1) != 1 or first.stride(-2) != width:
        return torch.cat(parts, dim=-1)
    return first.as_strided((*first.shape[:-1], width), first.stride())
