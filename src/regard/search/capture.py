"""Captured steps of each model, which are lent to one search at a time."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from regard.search.graphs import Step, StepGraphs
from regard.search.protocols import SearchStep
from regard.search.slots import Slots
from regard.search.traced import TracedSteps

V = TypeVar("V")


class StepCapture(Protocol):
    """Runs the steps of a search, captured or not."""

    on_gpu: bool
    lock: Lock
    """Held during a search, because captured steps refer to its memory"""

    def start(self, begin: Callable[[V], Slots[Any]], run: Step, key: Hashable, inputs: V) -> Slots[Any]:
        """Return begin(inputs); `run` is the step that will follow."""
        ...

    def step(self, run: Step, key: Hashable, slots: Slots[Any]) -> tuple[Slots[Any], SearchStep | None]:
        """Return run(slots); the slots may be changed in place. `key` is all that the step depends on, but shapes."""
        ...

    def end(self) -> None:
        """Forget the slots of a search that has ended."""
        ...


_CAPTURES: "WeakKeyDictionary[object, tuple[tuple[int, ...], StepCapture]]" = WeakKeyDictionary()
"""The captured steps of each model, and where its weights were in memory then"""


@contextmanager
def captured_steps(model: object, device: torch.device) -> Iterator[StepCapture | None]:
    """Lend the captured steps of a model to one search at a time; None: run without.

    On a CPU only copies for decoding are traced: weights that are trained cannot be constants.
    """
    weights = _weights_of(model)
    if not weights or (device.type == "cpu" and weights[0].requires_grad):
        yield None
        return
    address = tuple(weight.data_ptr() for weight in weights)
    if model not in _CAPTURES or _CAPTURES[model][0] != address:
        _CAPTURES[model] = address, StepGraphs() if device.type == "cuda" else TracedSteps(model)
    capture = _CAPTURES[model][1]
    if not capture.lock.acquire(blocking=False):
        yield None
        return
    try:
        yield capture
    except BaseException:
        if capture.on_gpu:  # what was captured may be incomplete, and memory may be short
            del _CAPTURES[model]
        raise
    finally:
        capture.end()
        capture.lock.release()


def _weights_of(model: object) -> list[nn.Parameter]:
    """Return the first weight of a model, or of each member of an ensemble; empty: it has none."""
    modules = [module for module in getattr(model, "members", (model,)) if isinstance(module, nn.Module)]
    return [weight for module in modules for weight in islice(module.parameters(), 1)]
