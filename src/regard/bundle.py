"""A model directory: config.json, model.safetensors, tokenizer/ and README.md (the model card)."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from regard import __version__, models
from regard.alignment.from_attention import Aligner
from regard.bundle_upgrade import FORMAT_VERSION, format_version, upgrade_config, upgrade_tensors
from regard.config import Config
from regard.errors import UserError
from regard.files import write_atomically
from regard.models.weights import load_weights, weights_of
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair

TaskName = Literal["translate", "text", "masked", "classify", "caption"]


class BundleConfig(Config):
    """The content of config.json."""

    format_version: int = FORMAT_VERSION
    regard_version: str = __version__
    task: TaskName = "translate"
    languages: tuple[str, str] = ("src", "tgt")
    context: int = 256
    """Language models: tokens that the model saw at once in training"""
    model: dict[str, Any]
    decode: DecodeConfig = DecodeConfig()
    alignment: Aligner = Aligner()
    examples: tuple[str, ...] = ()
    """Example inputs"""


@dataclass(frozen=True)
class Bundle:
    """A model with everything that is needed to use it."""

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
        """Write the model directory; `card` is the text of its README.md."""
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
        """Read a model directory of this or an older format."""
        folder = Path(folder)
        config, version = _read_config(folder)
        tokenizers = TokenizerPair.load(folder / "tokenizer")
        model_config = models.parse_config(config.model)
        src_size = None if tokenizers.joint else tokenizers.src.size
        model = models.build(model_config, tokenizers.tgt.size, src_size)
        path = folder / "model.safetensors"
        try:
            load_weights(model, upgrade_tensors(load_file(path), version), str(path))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: not a complete safetensors file ({error})") from None
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
    """Change how the attention of a model directory is turned into word links, and nothing else."""
    tree = {**_read_json(folder / "config.json", folder), "alignment": alignment.model_dump(mode="json")}
    write_atomically(folder / "config.json", (json.dumps(tree, indent=2, ensure_ascii=False) + "\n").encode())


def save_weights(model: models.Model, folder: Path) -> None:
    tensors = {name: tensor.cpu().contiguous() for name, tensor in weights_of(model).items()}
    write_atomically(folder / "model.safetensors", save(tensors, metadata={"format": "pt"}))


def _write_config(folder: Path, config: BundleConfig) -> None:
    write_atomically(folder / "config.json", (config.model_dump_json(indent=2) + "\n").encode())


def _read_config(folder: Path) -> tuple[BundleConfig, int]:
    """Read config.json → its content in the present format, and the format version of the folder"""
    path = folder / "config.json"
    tree = _read_json(path, folder)
    version = format_version(tree, str(path))
    return BundleConfig.parse(upgrade_config(tree, version), where=str(path)), version


def _read_json(path: Path, folder: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{folder}: no model found; give the directory that `regard train --out` wrote") from None
    except (ValueError, RecursionError, OSError):
        tree = None
    if not isinstance(tree, dict):
        raise UserError(f"{path}: damaged or unreadable; copy the model directory again")
    return tree
