"""Scores e(q, k): how well a query fits a key. Each maps [..., Tq, K] and [..., Tk, K] to [..., Tq, Tk]."""

import math

from torch import Tensor, nn


class Dot(nn.Module):
    """e(q, k) = q · k"""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class ScaledDot(nn.Module):
    """e(q, k) = q · k / √d_k, so that the variance of the scores does not grow with the width"""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)


SCORES: dict[str, type[nn.Module]] = {"dot": Dot, "scaled-dot": ScaledDot}
