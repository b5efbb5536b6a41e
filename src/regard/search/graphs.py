"""Steps of a search as CUDA graphs: all kernels of a step are launched together, without the host."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import torch

from regard.search.nested import copy_into, list_tensors, map_tensors
from regard.search.protocols import SearchStep
from regard.search.slots import Slots

R = TypeVar("R")
V = TypeVar("V")

Step = Callable[[Slots[Any]], tuple[Slots[Any], SearchStep | None]]

_MAX_GRAPHS = 64


@dataclass(frozen=True)
class CapturedStep:
    graph: torch.cuda.CUDAGraph
    step: SearchStep | None
    """The memory of the candidates of the last step, if the search is observed"""
    slots: Slots[Any]
    """The memory that the graph reads and writes"""


@dataclass(frozen=True)
class CapturedStart:
    graph: torch.cuda.CUDAGraph
    inputs: Any
    """The memory that the graph reads its inputs from; it writes to the slots of `step`"""
    step: CapturedStep


class StepGraphs:
    """Runs a search as CUDA graphs, one per shape of the slots, which are captured when they are first needed."""

    on_gpu = True

    def __init__(self) -> None:
        self.steps: OrderedDict[Hashable, CapturedStep] = OrderedDict()
        self.starts: OrderedDict[Hashable, CapturedStart] = OrderedDict()
        self.current: CapturedStep | None = None
        """The step whose slots the search uses now"""
        self.lock = Lock()
        """Held during a search, because the memory of the graphs is that of the search"""
        self.stream = torch.cuda.Stream()
        self.memory = torch.cuda.graph_pool_handle()

    def start(self, begin: Callable[[V], Slots[Any]], run: Step, key: Hashable, inputs: V) -> Slots[Any]:
        """Return begin(inputs); `run` is the step that will follow."""
        start_key = key, _shapes(inputs)
        start = self.starts.get(start_key)
        if start is None:
            step = self._find(run, key, begin(inputs))
            buffers = map_tensors(torch.clone, inputs)
            graph, _ = self._capture(lambda: copy_into(step.slots, begin(buffers)))
            start = self.starts[start_key] = CapturedStart(graph, buffers, step)
            limit_size(self.starts)
        copy_into(start.inputs, inputs)
        start.graph.replay()
        self.current = start.step
        return start.step.slots

    def step(self, run: Step, key: Hashable, slots: Slots[Any]) -> tuple[Slots[Any], SearchStep | None]:
        """Return run(slots). The result is valid until the next step."""
        if self.current is None or slots is not self.current.slots:
            self.current = self._find(run, key, slots)
            copy_into(self.current.slots, slots)
        self.current.graph.replay()
        return self.current.slots, self.current.step

    def end(self) -> None:
        """Forget the slots of a search that has ended."""
        self.current = None

    def _find(self, run: Step, key: Hashable, slots: Slots[Any]) -> CapturedStep:
        """Return the captured step for slots of these shapes."""
        step_key = key, _shapes(slots)
        if step_key not in self.steps:
            buffers = map_tensors(torch.clone, slots)

            def run_in_place() -> SearchStep | None:
                after, step = run(buffers)
                copy_into(buffers, after)
                return step

            self._run_on_stream(lambda: run(buffers))  # the first run chooses kernels
            self.steps[step_key] = CapturedStep(*self._capture(run_in_place), buffers)
            limit_size(self.steps)
        self.steps.move_to_end(step_key)
        return self.steps[step_key]

    def _run_on_stream(self, run: Callable[[], object]) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            run()
        torch.cuda.current_stream().wait_stream(self.stream)

    def _capture(self, run: Callable[[], R]) -> tuple[torch.cuda.CUDAGraph, R]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.memory, stream=self.stream, capture_error_mode="thread_local"):
            result = run()
        return graph, result


def _shapes(value: object) -> tuple[object, ...]:
    return tuple((tensor.shape, tensor.dtype) for tensor in list_tensors(value))


def limit_size(graphs: OrderedDict[Hashable, Any], most: int = _MAX_GRAPHS) -> None:
    """Drop the oldest graphs if there are too many."""
    while len(graphs) > most:
        graphs.popitem(last=False)
