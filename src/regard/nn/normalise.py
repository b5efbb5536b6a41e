"""From scores to attention weights. Masked positions get weight 0."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Normaliser = Callable[[Tensor, Tensor | None], Tensor]


def softmax(e: Tensor, mask: Tensor | None) -> Tensor:
    """exp(e_i) / Σ_j exp(e_j)"""
    return (e if mask is None else e.masked_fill(~mask, -torch.inf)).softmax(-1)


def hardmax(e: Tensor, mask: Tensor | None) -> Tensor:
    """1 at the largest score (the first of several), 0 elsewhere: the limit of softmax(s · e) as s grows

    The largest score does not change with small changes of the scores, so the true gradient is zero. To let models
    learn, the gradient is that of softmax (straight-through).
    """
    weights: Tensor = _Hardmax.apply(softmax(e, mask))
    return weights


class _Hardmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor) -> Tensor:
        return torch.zeros_like(weights).scatter(-1, weights.argmax(-1, keepdim=True), 1.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def divide_by_sum(e: Tensor, mask: Tensor | None) -> Tensor:
    """e_i / Σ_j e_j, for scores that are not negative"""
    e = unnormalised(e, mask)
    return e / e.sum(-1, keepdim=True)


def unnormalised(e: Tensor, mask: Tensor | None) -> Tensor:
    """e_i itself: attention without its normalisation step is linear in the values and in the keys"""
    return e if mask is None else e.masked_fill(~mask, 0.0)


def exponential(e: Tensor, mask: Tensor | None) -> Tensor:
    """exp(e_i), for scores that are logarithms of weights already; the weights may sum to less than 1"""
    return (e if mask is None else e.masked_fill(~mask, -torch.inf)).exp()


NORMALISERS: dict[str, Normaliser] = {
    "softmax": softmax,
    "hardmax": hardmax,
    "sum": divide_by_sum,
    "none": unnormalised,
    "exp": exponential,
}
