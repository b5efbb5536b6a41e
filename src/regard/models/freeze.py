"""Parts of a model that are not trained, by names such as `embeddings`, `encoder` and `decoder.layers.0-3`."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence

from torch import nn

from regard.errors import UserError
from regard.models import Model
from regard.nn.feedforward import FeedForward, GatedFeedForward

PARTS = ("embeddings", "encoder", "decoder", "attention", "feed_forward")
"""`encoder` and `decoder` are without their embeddings, which source, target and output layer may share"""

_LAYERS = re.compile(r"(encoder|decoder)\.layers\.(\d+)(?:-(\d+))?")


def check_part(name: str) -> str:
    """Return the name of a part; raise a ValueError that names the nearest one if there is no such part."""
    layers = _LAYERS.fullmatch(name)
    if name in PARTS or (layers and int(layers[3] or layers[2]) >= int(layers[2])):
        return name
    near = difflib.get_close_matches(name, PARTS, n=1)
    known = f"{', '.join(PARTS)}, or layers such as encoder.layers.0-3"
    raise ValueError(f"unknown part '{name}'; {f'did you mean {near[0]}?' if near else f'choose from {known}'}")


def freeze(model: Model, names: Sequence[str]) -> None:
    """Stop training the named parts of a model."""
    for name in names:
        parameters = list(_parameters(model, name))
        if not parameters:
            raise UserError(f"train.freeze: this model has no {name}; leave it out")
        for parameter in parameters:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError("train.freeze: nothing would be left to train; freeze fewer parts")


def _parameters(model: Model, name: str) -> Iterator[nn.Parameter]:
    """Yield the parameters of a part."""
    tables = {p for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    match name:
        case "embeddings":
            yield from tables
            yield from (p for path, p in model.named_parameters() if "positions" in path.split("."))
        case "attention":
            attention = [module for kind in ("encoder", "decoder", "cross") for module in model.attention_modules(kind)]
            yield from _parameters_of(attention)
        case "feed_forward":
            yield from _parameters_of(m for m in model.modules() if isinstance(m, FeedForward | GatedFeedForward))
        case _:
            yield from (p for path, p in model.named_parameters() if _is_in(path, name) and p not in tables)


def _parameters_of(modules: Iterable[object]) -> Iterator[nn.Parameter]:
    for module in modules:
        if isinstance(module, nn.Module):
            yield from module.parameters()


def _is_in(path: str, name: str) -> bool:
    """Return whether a parameter belongs to the encoder, the decoder or some of their layers."""
    layers = _LAYERS.fullmatch(name)
    if layers is None:
        return path.startswith(f"{name}.")
    layer = re.match(rf"{layers[1]}\.(?:stack\.)?layers\.(\d+)\.", path)
    return layer is not None and int(layers[2]) <= int(layer[1]) <= int(layers[3] or layers[2])
