"""Dropout, with fast random numbers on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_STEPS = 2**15
"""On a CPU the probability is rounded to a multiple of 1 / _STEPS, because each decision takes 15 random bits."""


class Dropout(nn.Dropout):
    """Sets a share p of the numbers to zero in training and divides the others by 1 − p."""

    def forward(self, x: Tensor) -> Tensor:
        if _is_slow(self, x):
            return x * dropout_factors(x, self.p)
        return F.dropout(x, self.p, self.training)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x + dropout(y)."""
        if _is_slow(self, y):
            return torch.addcmul(x, y, dropout_factors(y, self.p))
        return x + F.dropout(y, self.p, self.training)


def dropout_factors(x: Tensor, p: float) -> Tensor:
    """Return a random tensor like x on a CPU: 0 with probability p, otherwise 1 / (1 − p)."""
    dropped = min(round(p * _STEPS), _STEPS - 1)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_()  # 63 bits each, of which 4 × 15 are used
    draws = words.view(torch.int16)[: x.numel()].bitwise_and_(_STEPS - 1).view(x.shape)
    return (draws >= dropped).to(x.dtype).mul_(_STEPS / (_STEPS - dropped))


def _is_slow(module: nn.Dropout, x: Tensor) -> bool:
    """Return whether torch would draw one 64-bit number for every decision."""
    return module.training and module.p > 0 and x.device.type == "cpu" and not torch.compiler.is_compiling()
