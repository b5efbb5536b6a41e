"""Length penalty: without it, beam search prefers short sentences, because every token lowers the log-probability."""

from torch import Tensor


def length_penalty_factor(length: int | Tensor, alpha: float) -> float | Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^α, |Y| counting the end token (Wu et al. 2016, eq. 14; the Transformer uses α = 0.6)"""
    return ((5 + (length if isinstance(length, int) else length.double())) / 6) ** alpha


def normalise_score(log_prob: float, length: int, alpha: float) -> float:
    """Divide a log-probability by the length penalty."""
    return log_prob / float(length_penalty_factor(length, alpha))
