"""Masks: bool, True = may attend, broadcastable to [B, H, Tq, Tk]."""

import torch
from torch import Tensor


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """[Tq, Tk]: each query may attend to its own and earlier positions; the last query is at the last key."""
    square = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return square.tril(n_keys - n_queries)


def padding_mask(n_padding: Tensor, length: int) -> Tensor:
    """[R, 1, length, length]: True where a position is not padding, given [R] padding tokens on the left of each row.

    A query that is padding itself may attend to its own position, because softmax needs at least one.
    """
    positions = torch.arange(length, device=n_padding.device)
    is_token = positions >= n_padding[:, None]
    is_own = positions == positions[:, None]
    return (is_token[:, None, :] | is_own)[:, None]


def as_added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a mask into what is added to the scores: 0 where attention is allowed, −∞ elsewhere."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)
