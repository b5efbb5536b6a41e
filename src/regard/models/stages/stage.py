"""Stages: one operation each, with its inputs, weights and output. What a block computes is a list of stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

Op = Literal[
    "given",
    "lookup",
    "scale",
    "add",
    "multiply",
    "concatenate",
    "columns",
    "reverse",
    "shift",
    "window",
    "linear",
    "layer-norm",
    "rms-norm",
    "activation",
    "split-heads",
    "join-heads",
    "rotate",
    "feature-map",
    "score",
    "local-centre",
    "local-log-weights",
    "normalise",
    "weighted-sum",
    "swiglu",
    "mean",
    "last-states",
    "gate",
    "gru-candidate",
    "gru-state",
    "lstm-cell",
    "lstm-state",
    "causal-convolution",
    "softplus",
    "scan",
    "read-state",
    "convolution-2d",
    "patches",
    "regions",
    "log-softmax",
]
"""docs/serve.md gives the formula of each"""
Setting = str | float | int


@dataclass(frozen=True)
class BlockStage:
    name: str
    """Also the name of its output"""
    part: str
    """The part of the layer that it belongs to, or the block"""
    op: Op
    inputs: tuple[str, ...] = ()
    """Names of values"""
    weights: tuple[str, ...] = ()
    """Names of values that belong to the model, not to the input"""
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True)
class Value:
    tensor: Tensor
    axes: tuple[str, ...]
    """What each axis counts: source, read, sequence, head, width, vocabulary, …"""


class BlockRecord:
    """The stages of one block, and all values by name: inputs, weights and outputs."""

    def __init__(self, block: str, rows: str) -> None:
        self.block = block
        self.rows = rows
        """The name of the axis of positions"""
        self.stages: list[BlockStage] = []
        self.values: dict[str, Value] = {}

    def given(self, name: str, tensor: Tensor, *axes: str, part: str | None = None) -> str:
        """Add a value that comes from outside of the block."""
        return self.stage(name, "given", (), tensor, axes, part=part)

    def stage(
        self,
        name: str,
        op: Op,
        inputs: tuple[str, ...],
        output: Tensor,
        axes: tuple[str, ...] = (),
        weights: "Mapping[str, tuple[Tensor, tuple[str, ...]] | None] | None" = None,
        part: str | None = None,
        **settings: Setting,
    ) -> str:
        """Add a stage with its output, which has the axes (rows, width) by default; return its name."""
        held = {f"{name}.{key}": pair for key, pair in (weights or {}).items() if pair is not None}
        for key, (tensor, weight_axes) in held.items():
            self.values[key] = Value(tensor.detach(), weight_axes)
        self.values[name] = Value(output.detach(), axes or (self.rows, "width"))
        part = name.split(".")[0] if part is None else part
        self.stages.append(BlockStage(name, part, op, inputs, tuple(held), settings))
        return name

    def linear(
        self, name: str, source: str, output: Tensor, weight: Tensor, bias: Tensor | None, axis: str = "width"
    ) -> str:
        """Add output = x Wᵀ + b."""
        weights = {"weight": (weight, (axis, "width")), "bias": None if bias is None else (bias, (axis,))}
        rows = self.values[source].axes[:-1]
        return self.stage(name, "linear", (source,), output, (*rows, axis), weights)

    def norm(self, name: str, source: str, output: Tensor, norm: nn.Module) -> str:
        """Add a norm of the rows; a module that is no norm adds nothing."""
        if not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
            return source
        eps = torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps
        bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
        weights = {"weight": (norm.weight, ("width",)), "bias": None if bias is None else (bias, ("width",))}
        op: Op = "layer-norm" if isinstance(norm, nn.LayerNorm) else "rms-norm"
        return self.stage(name, op, (source,), output, self.values[source].axes, weights, eps=eps)
