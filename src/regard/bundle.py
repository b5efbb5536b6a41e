"""A model directory: config.json, model.safetensors, tokenizer/ and README.md (the card). Load and save."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from regard import __version__, models
from regard.alignment.aligner import Aligner
from regard.config import Config
from regard.errors import UserError
from regard.files import write_atomically
from regard.models.weights import load_weights, weights_of
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair

TaskName = Literal["translate", "text", "masked", "classify", "caption"]
SCHEMA: Literal[1] = 1
"""Raised when older versions can no longer read the directory; CHANGELOG.md says so."""


class BundleConfig(Config):
    schema_version: Literal[1] = SCHEMA
    regard: str = __version__
    task: TaskName = "translate"
    languages: tuple[str, str] = ("src", "tgt")
    context: int = 256
    """Language models: tokens that they saw at once when they learnt"""
    model: dict[str, Any]
    decode: DecodeConfig = DecodeConfig()
    alignment: Aligner = Aligner()
    examples: tuple[str, ...] = ()
    """Texts to try it with"""


@dataclass(frozen=True)
class Bundle:
    """A model with all that is needed to use it."""

    model: models.Model
    model_config: models.ModelConfig
    tokenizers: TokenizerPair
    languages: tuple[str, str]
    decode: DecodeConfig
    task: TaskName = "translate"
    context: int = 256
    alignment: Aligner = field(default_factory=Aligner)
    examples: tuple[str, ...] = ()

    def save(self, folder: Path, card: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = BundleConfig(
            task=self.task,
            languages=self.languages,
            context=self.context,
            model=self.model_config.model_dump(mode="json"),
            decode=self.decode,
            alignment=self.alignment,
            examples=self.examples,
        )
        self.tokenizers.save(folder / "tokenizer")
        _write_config(folder, config)
        write_atomically(folder / "README.md", card.encode())
        save_weights(self.model, folder)

    @classmethod
    def load(cls, folder: str | Path) -> "Bundle":
        folder = Path(folder)
        config = _read_config(folder)
        tokenizers = TokenizerPair.load(folder / "tokenizer")
        model_config = models.parse_config(config.model)
        src_size = None if tokenizers.joint else tokenizers.src.size
        model = models.build(model_config, tokenizers.tgt.size, src_size)
        path = folder / "model.safetensors"
        try:
            load_weights(model, load_file(path), str(path))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: not a whole safetensors file ({error})") from None
        return cls(
            model.eval(),
            model_config,
            tokenizers,
            config.languages,
            config.decode,
            config.task,
            config.context,
            config.alignment,
            config.examples,
        )


def save_alignment(folder: Path, alignment: Aligner) -> None:
    """Change how a model directory's attention becomes links, and nothing else of it."""
    config = _read_config(folder).model_copy(update={"alignment": alignment})
    _write_config(folder, config)


def _write_config(folder: Path, config: BundleConfig) -> None:
    write_atomically(folder / "config.json", (config.model_dump_json(indent=2) + "\n").encode())


def save_weights(model: models.Model, folder: Path) -> None:
    tensors = {name: tensor.cpu().contiguous() for name, tensor in weights_of(model).items()}
    write_atomically(folder / "model.safetensors", save(tensors, metadata={"format": "pt"}))


def _read_config(folder: Path) -> BundleConfig:
    path = folder / "config.json"
    try:
        tree = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{folder}: no model there; give the directory that `regard train --out` wrote") from None
    except (ValueError, RecursionError, OSError):
        raise UserError(f"{path}: damaged or unreadable; copy the model directory again") from None
    found = tree.get("schema_version") if isinstance(tree, dict) else None
    if isinstance(found, int) and found > SCHEMA:
        raise UserError(f"{path}: written by a newer regard (schema {found}, this one reads {SCHEMA}); upgrade regard")
    return BundleConfig.parse(tree if isinstance(tree, dict) else {}, where=str(path))
