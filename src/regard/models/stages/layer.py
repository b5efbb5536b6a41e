"""Stages of a layer of a stack: mixer, cross-attention and feed-forward, each with its norm and residual connection."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.describe import activation_name
from regard.models.layers import DecoderLayer, EncoderLayer
from regard.models.stages.attention import attention_stages
from regard.models.stages.calls import ModuleCalls
from regard.models.stages.stage import BlockRecord
from regard.models.stages.state_space import state_space_stages, window_stages
from regard.nn.attention import MultiHeadAttention
from regard.nn.feedforward import FeedForward, GatedFeedForward
from regard.nn.mixers import BidirectionalStateSpace, StateSpace, Window
from regard.nn.residual import Residual

_ROUNDING = 1e-4


def layer_stages(record: BlockRecord, calls: ModuleCalls, layer: EncoderLayer | DecoderLayer[Any]) -> str:
    x = record.given("input", calls.input(layer), record.rows, "width")
    parts: list[tuple[str, Residual, Callable[[str], str]]] = []
    mixer = layer.mixer
    if mixer is not None and layer.mixer_residual is not None:
        assert isinstance(mixer, nn.Module)
        part, add = _mixer(record, calls, mixer)
        parts.append((part, layer.mixer_residual, add))
    if isinstance(layer, DecoderLayer) and layer.cross is not None and layer.cross_residual is not None:
        cross = layer.cross

        def add_cross(h: str) -> str:
            memory = record.given("memory", calls.input(cross.key_value), "source", "width", part="cross")
            return attention_stages(record, calls, "cross", cross, h, memory)

        parts.append(("cross", layer.cross_residual, add_cross))
    parts.append(
        ("feedforward", layer.feedforward_residual, lambda h: feed_forward_stages(record, calls, layer.feedforward, h))
    )
    following = [residual for _, residual, _ in parts[1:]]
    for i, (part, residual, add) in enumerate(parts):
        after = calls.input(following[i].norm) if i < len(following) and residual.pre else None
        x = _around(record, calls, part, residual, add, x, after)
    output = calls.last(layer).output[0][0]
    if (record.values[x].tensor - output).abs().max() > _ROUNDING:
        x = record.given("changed", output, record.rows, "width")  # the output of the layer was replaced
    return x


def _mixer(record: BlockRecord, calls: ModuleCalls, mixer: nn.Module) -> tuple[str, Callable[[str], str]]:
    """Return the name of the part, and what adds its stages."""
    match mixer:
        case StateSpace() | BidirectionalStateSpace():
            return "state-space", lambda h: state_space_stages(record, calls, "state-space", mixer, h)
        case Window():
            return "window", lambda h: window_stages(record, calls, "window", mixer, h)
    assert isinstance(mixer, MultiHeadAttention)
    return "self", lambda h: attention_stages(record, calls, "self", mixer, h, h)


def _around(
    record: BlockRecord,
    calls: ModuleCalls,
    part: str,
    residual: Residual,
    add: Callable[[str], str],
    x: str,
    after: Tensor | None,
) -> str:
    """Add the stages of a sub-layer between its norm and its sum; `after` is the sum, if a module receives it."""
    if residual.pre:
        y = add(record.norm(f"{part}.norm", x, calls.output(residual.norm), residual.norm))
        total = record.values[x].tensor + record.values[y].tensor if after is None else after
        return record.stage(f"{part}.sum", "add", (x, y), total)
    name = record.stage(f"{part}.sum", "add", (x, add(x)), calls.input(residual.norm))
    return record.norm(f"{part}.norm", name, calls.output(residual.norm), residual.norm)


def feed_forward_stages(record: BlockRecord, calls: ModuleCalls, module: nn.Module, x: str) -> str:
    assert isinstance(module, FeedForward | GatedFeedForward)
    inner, outer = module.inner, module.outer
    # With GELU the first product and the activation may be one call, so the product is computed here.
    product = F.linear(record.values[x].tensor, inner.matrix, inner.bias)
    name = record.linear("feedforward.inner", x, product, inner.matrix, inner.bias, "hidden")
    axes = (record.rows, "hidden")
    if isinstance(module, GatedFeedForward):
        name = record.stage("feedforward.activation", "swiglu", (name,), calls.input(outer), axes)
    else:
        activation = activation_name(module.activation)
        activated = calls.input(outer)
        name = record.stage("feedforward.activation", "activation", (name,), activated, axes, activation=activation)
    return record.linear("feedforward.outer", name, calls.output(outer), outer.matrix, outer.bias)
