"""Averages of training metrics between two log lines."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Meter:
    """Sums over the updates since the last reading. They stay on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.restart()

    def restart(self) -> None:
        self.nll = torch.zeros((), device=self.device)
        self.norm = torch.zeros((), device=self.device)
        self.tokens = self.updates = 0
        self.lr = 0.0
        self.since = time.perf_counter()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of the block as training time."""
        start = time.perf_counter()
        yield
        self.since += time.perf_counter() - start

    def add(self, nll: Tensor, tokens: int, norm: Tensor, lr: float) -> None:
        self.nll = self.nll + nll.detach()
        self.norm = self.norm + norm
        self.tokens += tokens
        self.updates += 1
        self.lr = lr

    def read(self) -> dict[str, float]:
        """Return the averages and start anew."""
        values = {
            "loss": float(self.nll) / max(1, self.tokens),
            "grad_norm": float(self.norm) / max(1, self.updates),
            "lr": self.lr,
        }
        values["tokens_per_second"] = self.tokens / (time.perf_counter() - self.since)
        self.restart()
        return values
