"""Training in miniature: the loss and the optimiser of any run, in a loop that is shorter than the experiments."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Protocol

import torch
from torch import nn

from regard.data.batch import Batch
from regard.text.vocab import PAD
from regard.train.loss import LossConfig, loss_from_logits
from regard.train.optim import OptimConfig, Optimizer, learning_rate

_ROWS = 100
_PLAIN = LossConfig(label_smoothing=0.0)
_APART = 1_000_000  # batches of a run, so that two seeds share none


class SyntheticTask(Protocol):
    def batch(self, n: int, seed: int) -> Batch:
        """`n` rows that are a function of the seed"""
        ...


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What is drawn inside, such as first weights, follows the seed; outside nothing has changed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def fit(model: nn.Module, task: SyntheticTask, updates: int, lr: float, seed: int) -> float:
    """Train on fresh batches, the same for every model of a seed → the median seconds of an update"""
    config = OptimConfig(schedule="cosine", lr=lr, warmup=max(1, updates // 10))
    optimizer, seconds = Optimizer(model, config), []
    model.train()
    for update in range(1, updates + 1):
        batch = task.batch(_ROWS, seed * _APART + update)
        start = time.perf_counter()
        loss, _ = loss_from_logits(model(batch), batch.tgt_out, _PLAIN)
        (loss / (batch.tgt_out != PAD).sum()).backward()
        optimizer.step(learning_rate(config, update, updates, d_model=1))
        seconds.append(time.perf_counter() - start)
    model.eval()
    return median(seconds)


def unseen(seed: int) -> int:
    """The seed of a test set beside the batches of `fit`"""
    return seed * _APART


def n_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
