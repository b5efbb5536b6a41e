"""Steps of a search as CUDA graphs: all kernels of a step are launched together, without the host."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from regard.search.nested import copy_into, list_tensors, map_tensors
from regard.search.protocols import SearchStep
from regard.search.slots import Slots

Step = Callable[[Slots[Any]], tuple[Slots[Any], SearchStep]]

_MAX_GRAPHS = 64


@dataclass(frozen=True)
class CapturedStep:
    graph: torch.cuda.CUDAGraph
    slots: Slots[Any]
    """The memory that the graph reads and writes"""
    step: SearchStep
    """The memory of the candidates of the last step"""


class StepGraphs:
    """Runs steps as CUDA graphs, one per shape of the slots, which are captured when they are first needed."""

    def __init__(self) -> None:
        self.captured: OrderedDict[Hashable, CapturedStep] = OrderedDict()
        self.last: CapturedStep | None = None
        self.lock = Lock()
        """Held during a search, because the memory of the graphs is that of the search"""
        self.stream = torch.cuda.Stream()
        self.memory = torch.cuda.graph_pool_handle()

    def __call__(self, run: Step, key: Hashable, slots: Slots[Any]) -> tuple[Slots[Any], SearchStep]:
        """Advance the slots by one step. The result is valid until the next call."""
        if self.last is None or slots is not self.last.slots:
            self.last = self._find(run, key, slots)
            copy_into(self.last.slots, slots)
        self.last.graph.replay()
        return self.last.slots, self.last.step

    def forget(self) -> None:
        """Drop all captured steps and their memory."""
        self.captured.clear()
        self.last = None
        self.memory = torch.cuda.graph_pool_handle()

    def _find(self, run: Step, key: Hashable, slots: Slots[Any]) -> CapturedStep:
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in list_tensors(slots))
        captured = self.captured.get((key, shapes))
        if captured is None:
            captured = self.captured[key, shapes] = self._capture(run, slots)
            if len(self.captured) > _MAX_GRAPHS:
                self.captured.popitem(last=False)
        self.captured.move_to_end((key, shapes))
        return captured

    def _capture(self, run: Step, slots: Slots[Any]) -> CapturedStep:
        buffers = map_tensors(torch.clone, slots)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            run(buffers)  # the first run chooses kernels; it writes only what the step itself would write
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.memory, stream=self.stream, capture_error_mode="thread_local"):
            after, step = run(buffers)
            copy_into(buffers, after)
        return CapturedStep(graph, buffers, step)


_GRAPHS: "WeakKeyDictionary[object, tuple[tuple[int, ...], StepGraphs]]" = WeakKeyDictionary()
"""The graphs of each model, and where its weights were in memory when they were captured"""


@contextmanager
def step_graphs(model: object, device: torch.device) -> Iterator[StepGraphs | None]:
    """Lend the graphs of a model to one search at a time; None: run without graphs."""
    address = _address_of_weights(model)
    if device.type != "cuda" or not address:
        yield None
        return
    if model not in _GRAPHS or _GRAPHS[model][0] != address:
        _GRAPHS[model] = address, StepGraphs()
    graphs = _GRAPHS[model][1]
    if not graphs.lock.acquire(blocking=False):
        yield None
        return
    try:
        yield graphs
    except BaseException:
        graphs.forget()
        raise
    finally:
        graphs.last = None
        graphs.lock.release()


def _address_of_weights(model: object) -> tuple[int, ...]:
    """Return where the weights of a model, or of the members of an ensemble, are in memory; empty: it has none."""
    modules = [module for module in getattr(model, "members", (model,)) if isinstance(module, nn.Module)]
    return tuple(weights.data_ptr() for module in modules for weights in islice(module.parameters(), 1))
