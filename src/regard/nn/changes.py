"""Changes to what a layer computes: heads that are switched off, activations that are replaced."""

from typing import NamedTuple

import torch
from torch import Tensor


class Replacement(NamedTuple):
    """Numbers that take the place of others."""

    values: Tensor
    mask: Tensor
    """bool, broadcastable to the values: True = replace"""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.where(self.mask, self.values.to(x.dtype), x)


class HeadChange(NamedTuple):
    """What happens to the outputs of the heads of one attention module before W_O."""

    scale: Tensor | None = None
    """0 switches a head off, 1 keeps it: [H], or [B, H] for different rows of a batch"""
    replacement: Replacement | None = None
    """[H, T, V], or T = 1 for all positions"""

    def __call__(self, heads: Tensor) -> Tensor:
        """heads [B, H, T, V]"""
        if self.scale is not None:
            heads = heads * self.scale[..., None, None].to(heads.dtype)
        return heads if self.replacement is None else self.replacement(heads)


class LayerChange(NamedTuple):
    """What happens in one layer."""

    mixer: HeadChange | None = None
    cross: HeadChange | None = None
    output: Replacement | None = None
    """[T, D]: of the vectors that the layer returns"""

    def after(self, x: Tensor) -> Tensor:
        """x [B, T, D]: the output of the layer"""
        return x if self.output is None else self.output(x)


NO_CHANGE = LayerChange()
