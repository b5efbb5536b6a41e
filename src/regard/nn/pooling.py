"""Attention pooling: a fixed-size summary of a sequence of any length, as the alternative to the mean."""

import torch
from torch import Tensor, nn

from regard.nn.attention import AttentionTrace, attend_traced


class AttentionPooling(nn.Module):
    """Σ_i softmax_i(q · k_i / √d) x_i with a learned query q and keys k_i = W x_i.

    W starts at 0, which gives the mean.
    """

    n_heads = 1
    score_name = "scaled-dot"
    normalise = "softmax"
    score_bias = "none"
    context = "layer"

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(d_model))
        self.key = nn.Parameter(torch.zeros(d_model, d_model))

    def forward(self, x: Tensor, mask: Tensor) -> AttentionTrace:
        """x [B, S, D], mask [B, S] → the trace of one query per row, whose output is [B, 1, D]"""
        q = self.query.expand(len(x), 1, -1)
        return attend_traced(q, x @ self.key.T, x, self.score_name, mask[:, None, :], self.normalise)
