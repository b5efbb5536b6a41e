"""Linear maps, on a GPU in training with a faster gradient of the bias."""

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.kernels.switch import fused_kernels, is_half
from regard.nn.low_rank import LowRank


class Linear(nn.Linear):
    """x Wᵀ + b, in which an adapter may change W"""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.adapter: LowRank | None = None

    @property
    def matrix(self) -> Tensor:
        """W, as the adapter changes it if there is one"""
        return self.weight if self.adapter is None else self.adapter(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.matrix, self.bias)

    def with_gelu(self, x: Tensor) -> Tensor:
        """Return GELU(x Wᵀ + b)."""
        matrix = self.matrix
        if _is_fused(x, matrix, self.bias):
            from regard.nn.kernels.linear import FusedLinearGelu

            return FusedLinearGelu.apply(x, matrix, self.bias)
        return F.gelu(F.linear(x, matrix, self.bias))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x Wᵀ + b."""
    if _is_fused(x, weight, bias):
        from regard.nn.kernels.linear import FusedLinear

        return FusedLinear.apply(x, weight, bias)
    return F.linear(x, weight, bias)


def _is_fused(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    return bias is not None and fused_kernels() is not None and is_half(x, weight, bias)
