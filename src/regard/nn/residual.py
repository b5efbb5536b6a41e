"""The residual connection and where its norm stands."""

import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """x / √(mean x² + ε) · g, with g in the type of x: torch's kernel wants both in one."""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}


class Residual(nn.Module):
    """Around a sub-layer f.  pre: x + dropout(f(norm(x)));  post: norm(x + dropout(f(x)))

    `enter` gives f its input, `leave` adds f's output; in between, f may return more than one value.
    """

    def __init__(self, d_model: int, dropout: float, norm: str, norm_kind: str = "layer") -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = NORMS[norm_kind](d_model)
        self.dropout = nn.Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        z = x + self.dropout(y)
        return z if self.pre else self.norm(z)
