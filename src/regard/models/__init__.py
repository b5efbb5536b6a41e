"""The models, by kind. A new model is a Config and a class in its own file, and a line in this table."""

from collections.abc import Callable, Mapping
from typing import Any

from regard.config import Config
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, TransformerConfig
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig

ModelConfig = TransformerConfig | EncoderDecoderConfig | DecoderOnlyConfig | EncoderOnlyConfig
GenerativeModel = EncoderDecoder | DecoderOnly
"""A model that generates an output token by token"""
Model = GenerativeModel | EncoderOnly

MODELS: dict[str, tuple[type[Config], Callable[..., Model]]] = {
    "transformer": (TransformerConfig, EncoderDecoder),
    "encoder-decoder": (EncoderDecoderConfig, EncoderDecoder),
    "decoder": (DecoderOnlyConfig, DecoderOnly),
    "encoder": (EncoderOnlyConfig, EncoderOnly),
}


def parse_config(options: Mapping[str, Any] | Config, where: str = "model") -> ModelConfig:
    """Check options, which name a `kind` of the table, and return the config of that model."""
    if isinstance(options, ModelConfig):
        return options
    prefix = f"{where}: " if where not in ("", "model") else ""
    if not isinstance(options, Mapping):
        raise UserError(f"{prefix}model must be a mapping such as {{kind: transformer, n_layers: 6}}, not {options!r}")
    kind = options.get("kind", "transformer")
    if not isinstance(kind, str) or kind not in MODELS:
        raise UserError(f"{prefix}model.kind '{kind}' is unknown; choose one of {', '.join(MODELS)}")
    config = MODELS[kind][0].parse(dict(options), where)
    assert isinstance(config, ModelConfig)
    return config


def build(config: ModelConfig | Mapping[str, Any], vocab_size: int, src_vocab_size: int | None = None) -> Model:
    """Build a new, untrained model. Give `src_vocab_size` when source and target have separate vocabularies.

    >>> options = {"kind": "transformer", "d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}
    >>> model = build(options, vocab_size=100)
    >>> sum(p.numel() for p in model.parameters())
    46080
    """
    config = parse_config(config)
    return MODELS[config.kind][1](config, vocab_size, src_vocab_size)
