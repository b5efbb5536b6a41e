"""The key-value cache of attention. It is never changed: `append` returns a longer one."""

from typing import NamedTuple

import torch
from torch import Tensor


class KeyValue(NamedTuple):
    """Keys [B, H, S, K] and values [B, H, S, V] of the positions read so far."""

    k: Tensor
    v: Tensor

    def append(self, new: "KeyValue") -> "KeyValue":
        return KeyValue(torch.cat([self.k, new.k], dim=2), torch.cat([self.v, new.v], dim=2))

    def select(self, rows: Tensor) -> "KeyValue":
        return KeyValue(self.k.index_select(0, rows), self.v.index_select(0, rows))
