"""Constant tensors that every step of decoding needs, made once per device."""

from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=1024)
def numbers(n: int, device: torch.device) -> Tensor:
    """Return 0, 1, … n − 1 as a tensor that must not be changed."""
    with torch.inference_mode(False):
        return torch.arange(n, device=device)
