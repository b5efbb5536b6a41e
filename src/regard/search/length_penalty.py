"""Length penalty: without it, beam search prefers short sentences, because every token lowers the log-probability."""

from typing import overload

from torch import Tensor


def length_penalty_factor(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α, |Y| counting the end token (Wu et al. 2016, eq. 14; the Transformer uses α = 0.6)"""
    return ((5 + length) / 6) ** alpha


@overload
def normalise_score(log_prob: float, length: int, alpha: float) -> float: ...
@overload
def normalise_score(log_prob: Tensor, length: int, alpha: float) -> Tensor: ...
def normalise_score(log_prob: float | Tensor, length: int, alpha: float) -> float | Tensor:
    """Divide a log-probability by the length penalty."""
    return log_prob / length_penalty_factor(length, alpha)
