"""A model directory: config.json, model.safetensors, tokenizer/, README.md (the model card) and manifest.json.

A translator's directory also has words.tsv, the source words of its training data; older ones do not.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from regard import __version__, models
from regard.alignment.from_attention import Aligner
from regard.bundle_files import CARD, CONFIG, TOKENIZER, WEIGHTS, WORDS, read_files, update_file, write_files
from regard.bundle_upgrade import (
    FIRST_WITH_MANIFEST,
    FORMAT_VERSION,
    format_version,
    upgrade_config,
    upgrade_names,
)
from regard.config import Config
from regard.errors import UserError
from regard.lock import lock_folder
from regard.manifest import MANIFEST, DamagedFile, check_regular, read_regular
from regard.memory import OutOfMemoryCaught
from regard.models.weights import SkipInitialisation, check_shapes, load_weights, weights_of
from regard.search.decode import DecodeConfig
from regard.text.direction import Direction, Directions
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import TokenizerPair

TaskName = Literal["translate", "text", "masked", "classify", "caption"]

NO_LANGUAGES = ("src", "tgt")
"""Instead of the language codes of a model, if they are not known"""


class BundleConfig(Config):
    """The content of config.json."""

    format_version: int = FORMAT_VERSION
    regard_version: str = __version__
    task: TaskName = "translate"
    languages: tuple[str, str] = NO_LANGUAGES
    directions: tuple[Direction, ...] = ()
    """What a model of several language pairs translates; left out of the file for a model of one pair"""
    reads_terms: bool = False
    """Whether the model was trained on annotated terms; left out of the file if it was not"""
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
    words: SeenWords | None = None
    """The source words of the training data"""
    card: str = ""
    """The model card (README.md) of the directory that was loaded"""
    directions: tuple[Direction, ...] = ()
    """Of a model of several language pairs; empty: the model translates one pair, `languages`"""
    reads_terms: bool = False
    """Whether the model was trained on annotated terms"""

    @property
    def all_directions(self) -> Directions:
        """The directions of a translator, whether it has several or one"""
        return Directions(self.directions) if self.directions else Directions.of([self.languages])

    def tagged_text(self, text: str) -> str:
        """Return a text with the tag of the first target language, if the model needs one and the text has none."""
        return self.all_directions.with_tag(text, self.all_directions.first.target)

    def save(self, folder: Path, card: str) -> None:
        """Write the model directory; `card` is the text of its README.md. A crash leaves the old one or the new one."""
        tokenizers = {TOKENIZER + name: content for name, content in self.tokenizers.files().items()}
        write_files(folder, {WEIGHTS: weights_to_bytes(self.model), **tokenizers, **self.small_files(card)})

    def small_files(self, card: str) -> dict[str, bytes]:
        """Return the content of the files that are neither weights nor tokenizers, by name."""
        config = BundleConfig(
            task=self.task,
            languages=self.languages,
            directions=self.directions,
            reads_terms=self.reads_terms,
            context=self.context,
            model=self.model_config.model_dump(mode="json"),
            decode=self.decode,
            alignment=self.alignment,
            examples=self.examples,
        )
        leave_out = {name for name in ("directions", "reads_terms") if not getattr(self, name)}
        content = (config.model_dump_json(indent=2, exclude=leave_out) + "\n").encode()
        files = {CONFIG: content, CARD: card.encode()}
        return files if self.words is None else {**files, WORDS: self.words.to_bytes()}

    @classmethod
    def load(cls, folder: str | Path) -> "Bundle":
        """Read a model directory of this or an older format. Its files are verified first."""
        folder = Path(folder)
        try:
            return cls._load(folder)
        except FileNotFoundError:  # another process has just replaced the files
            return cls._load(folder)

    @classmethod
    def _load(cls, folder: Path) -> "Bundle":
        files = read_files(folder)
        config, version = read_config(folder, files)
        tokenizers = _tokenizers(folder, files)
        model_config = models.parse_config(config.model, where=str(folder / CONFIG))
        model = _build_and_load(files.get(WEIGHTS, folder / WEIGHTS), version, model_config, tokenizers)
        return cls.of(model.eval(), tokenizers, config, model_config, files)

    @classmethod
    def of(
        cls,
        model: models.Model,
        tokenizers: TokenizerPair,
        config: BundleConfig,
        model_config: models.ModelConfig,
        files: Mapping[str, Path],
    ) -> "Bundle":
        """Return a model with the content of its config.json, and of the other small files."""
        return cls(
            model,
            model_config,
            tokenizers,
            config.languages,
            config.decode,
            config.task,
            config.context,
            config.alignment,
            config.examples,
            _read_words(files[WORDS]) if WORDS in files else None,
            read_regular(files[CARD]).decode(errors="replace") if CARD in files else "",
            config.directions,
            config.reads_terms,
        )


def load_tokenizers(folder: Path) -> TokenizerPair:
    """Read the tokenizers of a model directory."""
    return _tokenizers(folder, read_files(folder))


def load_task_and_model(folder: Path) -> tuple[TaskName, dict[str, Any]]:
    """Read the task of a model directory and the options of its model."""
    config, _ = read_config(folder, read_files(folder))
    return config.task, config.model


def load_directions(folder: Path) -> Directions:
    """Read the directions of a translator's directory."""
    config, _ = read_config(folder, read_files(folder))
    return Directions(config.directions) if config.directions else Directions.of([config.languages])


def save_alignment(folder: Path, alignment: Aligner) -> None:
    """Change how the attention of a model directory is turned into word links, and nothing else."""
    with lock_folder(folder):
        config = read_files(folder).get(CONFIG, folder / CONFIG)
        tree = {**read_json(config, folder), "alignment": alignment.model_dump(mode="json")}
        update_file(folder, CONFIG, (json.dumps(tree, indent=2, ensure_ascii=False) + "\n").encode())


def weights_to_bytes(model: models.Model) -> bytes:
    """Return the content of model.safetensors."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in weights_of(model).items()}
    return save(tensors, metadata={"format": "pt"})


def _tokenizers(folder: Path, files: Mapping[str, Path]) -> TokenizerPair:
    contents = {name: read_regular(path) for name, path in files.items() if name.startswith(TOKENIZER)}
    return TokenizerPair.from_files(contents, folder / TOKENIZER)


def _build_and_load(path: Path, version: int, config: models.ModelConfig, tokenizers: TokenizerPair) -> models.Model:
    """Build the model and load its weights. Memory is not used before their names and shapes are known to fit."""
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as header:
            shapes = {name: tuple(header.get_slice(name).get_shape()) for name in header.keys()}  # noqa: SIM118
        with OutOfMemoryCaught() as too_large, SkipInitialisation():
            model = models.build(config, tokenizers.tgt.size, None if tokenizers.joint else tokenizers.src.size)
        if too_large:
            raise UserError(f"{path}: the tensors of the model in config.json do not fit into memory")
        check_shapes(model, upgrade_names(shapes, version), str(path))
        load_weights(model, upgrade_names(load_file(path), version), str(path))
    except SafetensorError as error:
        raise DamagedFile(f"{path}: not a complete safetensors file ({error})") from None
    return model


def read_config(folder: Path, files: Mapping[str, Path]) -> tuple[BundleConfig, int]:
    """Read config.json → its content in the present format, and the format version of the folder"""
    path = files.get(CONFIG, folder / CONFIG)
    tree = read_json(path, folder)
    version = format_version(tree, str(path))
    if version >= FIRST_WITH_MANIFEST and MANIFEST not in files:
        raise DamagedFile(f"{folder / MANIFEST}: missing; copy the model directory again")
    return BundleConfig.parse(upgrade_config(tree, version), where=str(path)), version


def _read_words(path: Path) -> SeenWords:
    try:
        return SeenWords.from_bytes(read_regular(path))
    except ValueError:
        raise DamagedFile(f"{path}: damaged; copy the model directory again") from None


def read_json(path: Path, folder: Path) -> dict[str, Any]:
    if not path.exists():
        raise UserError(f"{folder}: no model found; give the directory that `regard train --out` wrote")
    try:
        tree = json.loads(read_regular(path))
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise DamagedFile(f"{path}: damaged; copy the model directory again")
    return tree
