"""LoRA (Hu et al. 2021): a matrix is changed by a product of two narrow ones, which are trained in its place."""

import torch
from torch import Tensor, nn


class LowRank(nn.Module):
    """W + α/r · B A  with A [r, D] and B [E, r], which is 0 before training

    The sum is computed before the product with the input, so that every kernel for linear maps can use it.
    """

    def __init__(self, like: Tensor, rank: int, alpha: float, generator: torch.Generator | None = None) -> None:
        """`like` is W, whose device and number type the two matrices get."""
        super().__init__()
        d_out, d_in = like.shape
        a = torch.randn(rank, d_in, generator=generator) * d_in**-0.5
        self.a = nn.Parameter(a.to(like))
        self.b = nn.Parameter(like.new_zeros(d_out, rank))
        self.scale = alpha / rank

    def forward(self, weight: Tensor) -> Tensor:
        return torch.addmm(weight, self.b, self.a, alpha=self.scale)
