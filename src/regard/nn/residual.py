"""Residual connections with layer normalisation before or after the sub-layer."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.kernels.switch import FusedKernels, fused_kernels, is_half

if TYPE_CHECKING:
    from regard.nn.kernels.residual_norm import DropoutPlace


class LayerNorm(nn.LayerNorm):
    """(x − mean x) / √(var x + ε) · g + b; in a fused kernel the result has the type of x"""

    def forward(self, x: Tensor) -> Tensor:
        return _fused_norm(self, x) if fused_kernels() and is_half(x) else super().forward(x)


class RMSNorm(nn.RMSNorm):
    """x / √(mean x² + ε) · g, with g cast to the type of x, as torch's fused kernel requires"""

    def forward(self, x: Tensor) -> Tensor:
        if fused_kernels() and is_half(x):
            return _fused_norm(self, x)
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


def make_norm(kind: str, d_model: int, eps: float | None = None) -> nn.Module:
    """Make a norm of that kind; without `eps`, ε is torch's own: 1e-5, for RMSNorm the smallest relative difference."""
    return NORMS[kind](d_model) if eps is None else NORMS[kind](d_model, eps=eps)


class Residual(nn.Module):
    """Residual connection around a sub-layer f.  pre: x + dropout(f(norm(x)));  post: norm(x + dropout(f(x)))

    `before` returns the input of f, `after` adds the output of f. Two methods, because f may return several values.
    """

    def __init__(
        self, d_model: int, dropout: float, norm: str, norm_kind: str = "layer", norm_eps: float | None = None
    ) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = make_norm(norm_kind, d_model, norm_eps)
        self.dropout = Dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        if self.pre and (kernels := fused_kernels()) and is_half(x, y):
            from regard.nn.kernels.residual_norm import FusedResidual

            return FusedResidual.apply(x, y, self._dropout_place(kernels))
        z = self.dropout.add(x, y)
        return z if self.pre else self.norm(z)

    def fork(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x for the sum and the input of f; in a fused kernel both gradients are added in one pass."""
        if self.pre and fused_kernels() and is_half(x):
            from regard.nn.kernels.residual_norm import FusedResidualNorm

            return FusedResidualNorm.apply(x, None, *_norm_options(self.norm, x), None)
        return x, self.before(x)

    def join(self, x: Tensor, y: Tensor, following: "Residual") -> tuple[Tensor, Tensor]:
        """Add the output of f; return the sum and the input of the following sub-layer."""
        if self.pre and following.pre and (kernels := fused_kernels()) and is_half(x, y):
            from regard.nn.kernels.residual_norm import FusedResidualNorm

            return FusedResidualNorm.apply(x, y, *_norm_options(following.norm, x), self._dropout_place(kernels))
        return following.fork(self.after(x, y))

    def _dropout_place(self, kernels: FusedKernels) -> "DropoutPlace | None":
        from regard.nn.kernels.residual_norm import DropoutPlace

        if not (self.training and self.dropout.p):
            return None
        return DropoutPlace(self.dropout.p, kernels.seed, kernels.next_place())


def _norm_options(norm: nn.Module, x: Tensor) -> tuple[Tensor, Tensor | None, float]:
    """Return the weight, the bias and ε of a norm of NORMS."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    eps = torch.finfo(x.dtype).eps if norm.eps is None else norm.eps
    return norm.weight, norm.bias if isinstance(norm, LayerNorm) else None, eps


def _fused_norm(norm: nn.Module, x: Tensor) -> Tensor:
    from regard.nn.kernels.residual_norm import FusedResidualNorm

    return FusedResidualNorm.apply(x, None, *_norm_options(norm, x), None)[1]
