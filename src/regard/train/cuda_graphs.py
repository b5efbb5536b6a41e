"""CUDA graphs: what the host launches kernel by kernel is recorded once a shape and then launched as one."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Shapes = tuple[torch.Size, ...]


class CapturedGraph(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    output: Tensor


class GraphRunner:
    """`run(*tensors) → tensor` on a GPU, where launching may take longer than computing.

    The first call with some shapes runs as it is (kernels are compiled and chosen then), the second one is recorded,
    and from then on the recording is replayed on new inputs. What `run` writes beside its output, gradients for
    instance, must stay where it is in memory. The output holds until the next call.
    """

    def __init__(self, run: Callable[..., Tensor]) -> None:
        self.run = run
        self.seen: set[Shapes] = set()
        self.recordings: dict[Shapes, CapturedGraph] = {}
        self.stream = torch.cuda.Stream()
        self.memory = torch.cuda.graph_pool_handle()  # one for all shapes: only one is replayed at a time

    def __call__(self, *inputs: Tensor) -> Tensor:
        shapes = tuple(tensor.shape for tensor in inputs)
        if shapes not in self.seen:
            self.seen.add(shapes)
            return self._aside(inputs)
        if shapes not in self.recordings:
            self.recordings[shapes] = self._record(inputs)
        recording = self.recordings[shapes]
        for held, given in zip(recording.inputs, inputs, strict=True):
            held.copy_(given)
        recording.graph.replay()
        return recording.output

    def _aside(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """On the stream that recordings are made on: autograd remembers where a gradient was first summed."""
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            output = self.run(*inputs)
        current.wait_stream(self.stream)
        return output

    def _record(self, inputs: tuple[Tensor, ...]) -> CapturedGraph:
        held = tuple(tensor.clone() for tensor in inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.memory, stream=self.stream):
            output = self.run(*held)
        return CapturedGraph(graph, held, output)
