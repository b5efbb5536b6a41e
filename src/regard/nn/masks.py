"""Masks: bool, True = may attend, broadcastable to [B, H, Tq, Tk]. All of them are made here."""

import torch
from torch import Tensor


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """[Tq, Tk]: query i, the (Tk − Tq + i)-th of the sequence, may look at keys up to its own place."""
    square = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return square.tril(n_keys - n_queries)
