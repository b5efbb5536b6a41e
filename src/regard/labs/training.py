"""A short training loop for labs, with the loss and the optimizer of `regard train`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import torch
from torch import nn

from regard.data.batch import Batch
from regard.text.vocab import PAD
from regard.train.loss import LossConfig, loss_from_logits
from regard.train.optim import OptimConfig, Optimizer, learning_rate

BATCH_SIZE = 100
_CROSS_ENTROPY = LossConfig(label_smoothing=0.0)
_SEED_STRIDE = 1_000_000  # more than the updates of a run, so that runs with different seeds share no batch


@dataclass(frozen=True)
class Budget:
    """How much a lab trains and tests."""

    updates: int
    """Updates per model; 0 leaves the models untrained."""
    samples: int
    """Test samples per measurement."""


class SyntheticTask(Protocol):
    """A task that generates its batches."""

    def batch(self, n: int, seed: int) -> Batch:
        """Return `n` rows; the same seed gives the same rows."""
        ...


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch's random numbers (for initial weights, say) inside the block; outside, their state is unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def train_model(model: nn.Module, task: SyntheticTask, updates: int, lr: float, seed: int) -> float:
    """Train on new batches, the same for every model with this seed; return the median seconds per update."""
    config = OptimConfig(schedule="cosine", lr=lr, warmup=max(1, updates // 10))
    optimizer, seconds = Optimizer(model, config), [0.0] * (not updates)
    model.train()
    for update in range(1, updates + 1):
        batch = task.batch(BATCH_SIZE, seed * _SEED_STRIDE + update)
        start = time.perf_counter()
        loss, _ = loss_from_logits(model(batch), batch.tgt_out, _CROSS_ENTROPY)
        (loss / (batch.tgt_out != PAD).sum()).backward()
        optimizer.step(learning_rate(config, update, updates, d_model=1))
        model.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    model.eval()
    return median(seconds)


def heldout_seed(seed: int) -> int:
    """Return the seed of the test set, which no batch of `train_model` uses."""
    return seed * _SEED_STRIDE


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
