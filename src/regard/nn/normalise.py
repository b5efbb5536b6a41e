"""From scores to attention weights. Masked positions get weight 0."""

from collections.abc import Callable

import torch
from torch import Tensor

Normaliser = Callable[[Tensor, Tensor | None], Tensor]


def softmax(e: Tensor, mask: Tensor | None) -> Tensor:
    """exp(e_i) / Σ_j exp(e_j)"""
    return (e if mask is None else e.masked_fill(~mask, -torch.inf)).softmax(-1)


def divide_by_sum(e: Tensor, mask: Tensor | None) -> Tensor:
    """e_i / Σ_j e_j, for scores that are not negative"""
    e = unnormalised(e, mask)
    return e / e.sum(-1, keepdim=True)


def unnormalised(e: Tensor, mask: Tensor | None) -> Tensor:
    """e_i itself: attention without its normalisation step is linear in the values and in the keys"""
    return e if mask is None else e.masked_fill(~mask, 0.0)


NORMALISERS: dict[str, Normaliser] = {"softmax": softmax, "sum": divide_by_sum, "none": unnormalised}
