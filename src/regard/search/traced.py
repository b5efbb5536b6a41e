"""Steps of a search on a CPU as traced graphs: torch runs all operations of a step without Python in between."""

import warnings
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.models.inference import PackedLinear
from regard.search.graphs import Step
from regard.search.nested import copy_into, list_tensors, map_tensors
from regard.search.protocols import SearchStep
from regard.search.slots import Slots

V = TypeVar("V")

_MAX_ROWS = 512  # with more hypotheses, what Python needs is small against the arithmetic
_MAX_TRACES = 32  # per model: torch never frees a trace, which takes some megabytes
_MAX_COUNTED = 4_096  # shapes; clients may send any number of different options
_SEARCHES = 4  # tracing takes as long as a few searches, so a shape is traced when this many have needed it


class TracedSteps:
    """Runs steps as traced graphs, one per shape of the slots that occurs often."""

    on_gpu = False

    def __init__(self, model: object) -> None:
        members = [module for module in getattr(model, "members", (model,)) if isinstance(module, nn.Module)]
        modules = [module for member in members for module in member.modules()]
        self.packed = [module for module in modules if isinstance(module, PackedLinear)]
        self.traces: dict[Hashable, Callable[..., Any] | None] = {}
        """None: the shape cannot be traced"""
        self.n_searches: dict[Hashable, int] = {}
        """How many searches have needed each shape"""
        self.seen: set[Hashable] = set()
        """Shapes that the present search needed"""
        self.key: Hashable = None
        self.slots: Slots[Any] | None = None
        """What `trace` was found for"""
        self.inputs: list[Tensor] = []
        """The tensors of `slots`, and the packed weights"""
        self.trace: Callable[..., Any] | None = None
        self.lock = Lock()

    def start(self, begin: Callable[[V], Slots[Any]], run: Step, key: Hashable, inputs: V) -> Slots[Any]:
        """Return begin(inputs)."""
        return begin(inputs)

    def step(self, run: Step, key: Hashable, slots: Slots[Any]) -> tuple[Slots[Any], SearchStep | None]:
        """Return run(slots), or change the slots in place and return them."""
        if slots.log_probs.numel() > _MAX_ROWS:
            return run(slots)
        if slots is not self.slots or key != self.key:
            self.trace = self._find(run, (key, slots.tokens.shape), slots)
            self.key, self.slots = key, None
            if self.trace is None:
                return run(slots)
            self.slots = slots
            self.inputs = [*list_tensors(slots), *(module.packed for module in self.packed)]
        assert self.trace is not None
        step = self.trace(*self.inputs)
        return slots, SearchStep(*step) if len(step) > 1 else None

    def end(self) -> None:
        """Forget the slots of a search that has ended."""
        self.seen.clear()
        self.slots, self.inputs = None, []

    def _find(self, run: Step, key: Hashable, slots: Slots[Any]) -> Callable[..., Any] | None:
        """Return the trace for slots of these shapes, if there is one."""
        if key not in self.seen:
            self.seen.add(key)
            if len(self.n_searches) >= _MAX_COUNTED:
                self.n_searches.clear()
            self.n_searches[key] = self.n_searches.get(key, 0) + 1
        if key not in self.traces and self.n_searches.get(key, 0) >= _SEARCHES and len(self.traces) < _MAX_TRACES:
            self.traces[key] = self._trace(run, slots)
        return self.traces.get(key)

    def _trace(self, run: Step, slots: Slots[Any]) -> Callable[..., Any] | None:
        """Trace a step that changes its slots in place and returns how it may be observed."""
        example = map_tensors(torch.clone, slots)
        weights = [module.packed for module in self.packed]
        n = len(list_tensors(example))

        def run_in_place(*inputs: Tensor) -> tuple[Tensor, ...]:
            remaining = iter(inputs[:n])
            buffers = map_tensors(lambda _: next(remaining), example)
            for module, weight in zip(self.packed, inputs[n:], strict=True):
                module.packed = weight  # a trace cannot have constants in oneDNN's layout
            after, step = run(buffers)
            copy_into(buffers, after)
            return (step.sentences, *step.candidates) if step else (buffers.done,)  # a trace must return something

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about values that are constant: all are functions of the shapes
                traced: Callable[..., Any] = torch.jit.trace(
                    run_in_place, (*list_tensors(example), *weights), check_trace=False
                )
                return traced
        except RuntimeError:  # an operation that cannot be traced
            return None
        finally:
            for module, weight in zip(self.packed, weights, strict=True):
                module.packed = weight
