"""How many tokens the graphs of an ONNX folder can read."""

from typing import Any

from regard.bundle import Bundle
from regard.convert.position_count import position_count
from regard.models.encoder_decoder import EncoderDecoder
from regard.nn.positions import SinusoidalPositions


def max_positions(bundle: Bundle) -> dict[str, int | None]:
    """Return the most tokens of each graph by its name: encoder, decoder. None: any number"""
    model: Any = bundle.model
    limits = {"decoder": [model.max_len, _table(model.decoder, bundle)]}
    if isinstance(model, EncoderDecoder):
        most = model.max_source_tokens
        limits["encoder"] = [None if most is None else most + 1, _table(model.encoder, bundle)]
    return {name: min((n for n in both if n is not None), default=None) for name, both in limits.items()}


def _table(stack: Any, bundle: Bundle) -> int | None:
    """Return the length of the table of sinusoids that a graph has; None: it has none."""
    return position_count(bundle) if isinstance(stack.embedding.positions, SinusoidalPositions) else None
