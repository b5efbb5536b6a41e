"""Local attention (Luong et al., 2015): a window of source positions around a monotonic or predicted centre."""

import torch
from torch import Tensor, nn


class LocalWindow(nn.Module):
    """The 2·D + 1 positions around a centre p. Positions count from 0.

    Monotonic: p_t = t, for pairs in the same word order. Predictive: p_t = (n − 1) · sigmoid(vᵀ tanh(W q)) for a source
    of n tokens, and a Gaussian with σ = D/2 around p_t multiplies the weights.
    """

    def __init__(self, kind: str, d_query: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.predict: nn.Sequential | None = None
        if kind == "predictive":
            self.predict = nn.Sequential(
                nn.Linear(d_query, d_query, bias=False), nn.Tanh(), nn.Linear(d_query, 1, bias=False)
            )

    def centres(self, q: Tensor, steps: Tensor, lengths: Tensor) -> Tensor:
        """q [N, Q, D], target position of each query [N, Q], source lengths [N] → p [N, Q, 1]"""
        last = (lengths - 1)[:, None, None]
        if self.predict is None:
            return torch.minimum(steps[..., None], last)
        return last * self.predict(q).sigmoid()

    def mask(self, centres: Tensor, mask: Tensor) -> Tensor:
        """The mask [N, 1, S] of the source, restricted to the window of each query → [N, Q, S]"""
        return mask & (self._offsets(centres, mask).abs() <= self.reach)

    def log_weights(self, e: Tensor, centres: Tensor, mask: Tensor) -> Tensor:
        """log(softmax over the window · exp(−(s − p)² / 2σ²)) for scores e [N, Q, S]"""
        total = e.masked_fill(~mask, -torch.inf).logsumexp(-1, keepdim=True)
        return e - total - self._offsets(centres, e) ** 2 / (2 * (self.reach / 2) ** 2)

    def _offsets(self, centres: Tensor, like: Tensor) -> Tensor:
        return torch.arange(like.shape[-1], device=like.device) - centres
