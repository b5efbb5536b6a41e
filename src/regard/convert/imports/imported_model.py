"""What is known of a model of another program before its weights are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.bundle import NO_LANGUAGES, TaskName
from regard.convert.imports.model_folder import JsonObject, ModelFolder
from regard.convert.imports.tensor_files import TensorFiles, WeightReader
from regard.models import ModelConfig
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair

ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
}
"""Their names of activations → ours"""


@dataclass(frozen=True)
class ImportedModel:
    """A model of another program, in our terms."""

    title: str
    """What it is called in the model card, e.g. Marian"""
    task: TaskName
    config: ModelConfig
    tokenizers: TokenizerPair
    files: TensorFiles
    weights: Callable[[WeightReader], dict[str, Tensor]]
    """Returns our tensors by name"""
    ignored: str = ""
    """A regular expression of their tensors that are not needed, such as second names of a shared one"""
    languages: tuple[str, str] = NO_LANGUAGES
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    context: int = 256


def decode_settings(folder: ModelFolder, max_source: int, is_own: bool = False) -> DecodeConfig:
    """Return the settings of decoding in generation_config.json, as far as ours can express them.

    Their score is log p / length^α, ours log p / ((5 + length) / 6)^α; around 20 tokens, α = 1.25 here prefers the same
    lengths as α = 1 there. The settings of a model that regard has exported (`is_own`) are taken as they are.
    """
    name = "generation_config.json"
    settings = folder.config(name) if folder.has(name) else JsonObject({}, name)
    beam = min(max(settings.number("num_beams", 1), 1), 100)
    factor = 1.0 if is_own else 1.25
    options = {
        "beam": beam,
        "length_penalty": max(0.0, factor * settings.get("length_penalty", float, 1.0)) if beam > 1 else 0.0,
        "no_repeat_ngram": settings.number("no_repeat_ngram_size", 0),
        "max_source": max_source,
    }
    return DecodeConfig.parse(options, where=settings.where)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def stacked(*linears: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return linear maps of the same input as one, with their outputs side by side."""
    return {part: torch.cat([linear[part] for linear in linears]) for part in linears[0]}
