"""Length normalisation: long sentences collect more minus signs, which must not count against them."""

from typing import overload

from torch import Tensor


def length_penalty_factor(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α, |Y| counting the end token (Wu et al. 2016, eq. 14; the Transformer's α is 0.6)"""
    return ((5 + length) / 6) ** alpha


@overload
def normalised(log_prob: float, length: int, alpha: float) -> float: ...
@overload
def normalised(log_prob: Tensor, length: int, alpha: float) -> Tensor: ...
def normalised(log_prob: float | Tensor, length: int, alpha: float) -> float | Tensor:
    return log_prob / length_penalty_factor(length, alpha)
