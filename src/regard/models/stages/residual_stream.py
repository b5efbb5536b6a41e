"""The residual stream: the vectors of all positions after each part of each layer, and what the part adds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.models.image_encoder import ImageEncoder
from regard.models.layers import DecoderLayer, EncoderLayer
from regard.models.stack import StackDecoder, StackEncoder
from regard.models.stages.calls import ModuleCalls
from regard.nn.attention import MultiHeadAttention
from regard.nn.mixers import BidirectionalStateSpace, StateSpace, Window
from regard.nn.residual import Residual


@dataclass(frozen=True)
class StreamPoint:
    block: str
    part: str
    """The part of the layer after which the vectors are taken; empty: before the first layer"""
    after: Tensor
    """[B, T, D]"""
    added: Tensor | None
    """[B, T, D]: the output of the part"""


def inner_stack(stack: object) -> StackEncoder | StackDecoder | None:
    """Return the stack of layers of an encoder or decoder; None if it is recurrent."""
    inner = stack.stack if isinstance(stack, ImageEncoder) else stack
    return inner if isinstance(inner, StackEncoder | StackDecoder) else None


def residual_stream(calls: ModuleCalls, name: str, stack: StackEncoder | StackDecoder) -> Iterator[StreamPoint]:
    """Yield the stream of a stack whose layers were called once."""
    for i, layer in enumerate(stack.layers):
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        if i == 0:
            yield StreamPoint(f"{name}.embedding", "", calls.last(layer).args[0], None)
        parts = layer_parts(layer)
        for j, (part, module, residual) in enumerate(parts):
            output = calls.last(module).output
            added = output[0] if isinstance(output, tuple) else output
            if j == len(parts) - 1:
                after = calls.last(layer).output[0]
            elif residual.pre:
                after = calls.last(parts[j + 1][2].norm).args[0]
            else:
                after = calls.last(residual.norm).output
            yield StreamPoint(f"{name}.{i}", part, after, added)


def layer_parts(layer: EncoderLayer | DecoderLayer[Any]) -> list[tuple[str, nn.Module, Residual]]:
    """Return the name, the module and the residual connection of each part of a layer, in order."""
    parts: list[tuple[str, nn.Module, Residual]] = []
    if isinstance(layer.mixer, nn.Module) and layer.mixer_residual is not None:
        parts.append((mixer_name(layer.mixer), layer.mixer, layer.mixer_residual))
    if isinstance(layer, DecoderLayer) and layer.cross is not None and layer.cross_residual is not None:
        parts.append(("cross", layer.cross, layer.cross_residual))
    return [*parts, ("feedforward", layer.feedforward, layer.feedforward_residual)]


def mixer_name(mixer: nn.Module) -> str:
    match mixer:
        case StateSpace() | BidirectionalStateSpace():
            return "state-space"
        case Window():
            return "window"
    assert isinstance(mixer, MultiHeadAttention)
    return "self"
