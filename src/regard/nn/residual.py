"""Residual connections with layer normalisation before or after the sub-layer."""

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import Dropout


class RMSNorm(nn.RMSNorm):
    """x / √(mean x² + ε) · g, with g cast to the type of x, as torch's fused kernel requires"""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}


class Residual(nn.Module):
    """Residual connection around a sub-layer f.  pre: x + dropout(f(norm(x)));  post: norm(x + dropout(f(x)))

    `before` returns the input of f, `after` adds the output of f. Two methods, because f may return several values.
    """

    def __init__(self, d_model: int, dropout: float, norm: str, norm_kind: str = "layer") -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = NORMS[norm_kind](d_model)
        self.dropout = Dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        z = self.dropout.add(x, y)
        return z if self.pre else self.norm(z)
