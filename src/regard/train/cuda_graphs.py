"""CUDA graphs: the kernels of a function are captured once per input shape and then launched together."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Shapes = tuple[torch.Size, ...]


class CapturedGraph(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    """The memory that the graph reads its inputs from"""
    output: Tensor


class GraphRunner:
    """Runs `run(*tensors) → tensor` on a GPU as a CUDA graph, where launching kernels takes longer than computing.

    The first call with certain shapes runs normally, because kernels are compiled and chosen then; the second one is
    captured; later ones copy their inputs and replay the graph. Whatever else `run` writes, such as gradients, must
    stay at the same place in memory. The output is valid until the next call.
    """

    def __init__(self, run: Callable[..., Tensor]) -> None:
        self.run = run
        self.known: set[Shapes] = set()
        self.graphs: dict[Shapes, CapturedGraph] = {}
        self.stream = torch.cuda.Stream()
        self.memory = torch.cuda.graph_pool_handle()  # one pool for all shapes: only one graph runs at a time

    def __call__(self, *inputs: Tensor) -> Tensor:
        shapes = tuple(tensor.shape for tensor in inputs)
        if shapes not in self.known:
            self.known.add(shapes)
            return self._run_on_stream(inputs)
        if shapes not in self.graphs:
            self.graphs[shapes] = self._capture(inputs)
        captured = self.graphs[shapes]
        for buffer, tensor in zip(captured.inputs, inputs, strict=True):
            buffer.copy_(tensor)
        captured.graph.replay()
        return captured.output

    def forget(self) -> None:
        """Drop all captured graphs and their memory."""
        self.known.clear()
        self.graphs.clear()
        self.memory = torch.cuda.graph_pool_handle()

    def _run_on_stream(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run normally, but on the stream that graphs are captured on.

        Autograd accumulates a gradient on the stream where it was first computed.
        """
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            output = self.run(*inputs)
        current.wait_stream(self.stream)
        return output

    def _capture(self, inputs: tuple[Tensor, ...]) -> CapturedGraph:
        buffers = tuple(tensor.clone() for tensor in inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.memory, stream=self.stream):
            output = self.run(*buffers)
        return CapturedGraph(graph, buffers, output)
