"""What a run takes from the model that it starts from (`train.init`), its parent.

What a resumed run needs of it is kept in the run's folder, so that the parent may be moved or deleted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from regard import models
from regard.alignment.from_attention import Aligner
from regard.bundle import Bundle
from regard.bundle_files import WEIGHTS, read_files, write_files
from regard.errors import UserError
from regard.manifest import Checksum, read_regular
from regard.models.adapters import add_adapters
from regard.models.freeze import freeze
from regard.models.piece_rows import PieceCounts, copy_rows, match_pieces, piece_tables
from regard.models.weights import frozen_weights, load_matching, replace_weights, weights_of
from regard.text.direction import Directions
from regard.text.language_codes import same_language
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import TokenizerPair
from regard.train.log import RunLog
from regard.train.optim import peak_rate
from regard.train.parent_model import translates_others
from regard.train.train_config import TrainConfig

FOLDER = "parent"
"""Name of the folder in the folder of a run"""
_HIGH_RATE = 2e-3  # docs/training.md has a measurement
_FACTS, _FROZEN, _WORDS = "parent.json", "frozen.safetensors", "words.tsv"


@dataclass(frozen=True)
class Parent:
    """The model that a run starts from."""

    name: str
    """Name of its folder"""
    sha256: str
    """Checksum of its weights"""
    languages: tuple[str, str]
    alignment: Aligner
    words: SeenWords | None
    """The source words of its training data"""
    frozen: Mapping[str, Tensor]
    """The weights of the run that are not trained"""

    @classmethod
    def of(cls, init: Path, bundle: Bundle, frozen: Mapping[str, Tensor] | None = None) -> "Parent":
        checksum = Checksum.of_file(read_files(init)[WEIGHTS])
        return cls(init.resolve().name, checksum.sha256, bundle.languages, bundle.alignment, bundle.words, frozen or {})

    def save(self, folder: Path) -> None:
        facts: dict[str, object] = {"name": self.name, "sha256": self.sha256, "languages": self.languages}
        facts["alignment"] = self.alignment.model_dump(mode="json")
        frozen = {name: tensor.cpu().contiguous() for name, tensor in self.frozen.items()}
        files = {_FACTS: json.dumps(facts, indent=1).encode(), _FROZEN: save(frozen)}
        write_files(folder, files if self.words is None else {**files, _WORDS: self.words.to_bytes()})

    @classmethod
    def read(cls, folder: Path) -> "Parent | None":
        """Return what `save` wrote; None if it is not complete or damaged."""
        try:
            files = {name: read_regular(path) for name, path in read_files(folder).items()}
            facts = json.loads(files[_FACTS])
            words = SeenWords.from_bytes(files[_WORDS]) if _WORDS in files else None
            source, target = facts["languages"]
            alignment = Aligner.parse(facts["alignment"])
            return cls(facts["name"], facts["sha256"], (source, target), alignment, words, load(files[_FROZEN]))
        except (UserError, SafetensorError, ValueError, KeyError, TypeError):
            return None

    def all_words(self, words: SeenWords | None, languages: tuple[str, str]) -> SeenWords | None:
        """Return the words of the run's data and those that its parent has seen, if the source language is the same."""
        if words is None or self.words is None or not same_language(languages[0], self.languages[0]):
            return words
        return words.with_earlier(self.words)


def prepare_model(
    model: models.Model,
    tokenizers: TokenizerPair,
    config: TrainConfig,
    folder: Path,
    has_checkpoint: bool,
    log: RunLog,
) -> Parent:
    """Give a model the weights of its parent, freeze parts of it and add adapters.

    If there is a checkpoint, the trained weights will come from it, and the others from what the run has kept in
    `folder`.
    """
    assert config.init
    parent = Parent.read(folder) if has_checkpoint else None
    if has_checkpoint and parent is None:
        log.info(f"{folder}: damaged, so it is made again from {config.init}")
    bundle = None if parent else Bundle.load(config.init)
    if bundle:
        _inherit_weights(model, tokenizers, bundle, config, log)
    choose_trained(model, config)
    if bundle:
        parent = Parent.of(config.init, bundle, frozen_weights(model))
        parent.save(folder)
    assert parent
    replace_weights(frozen_weights(model), parent.frozen, str(folder))
    return parent


def choose_trained(model: models.Model, config: TrainConfig) -> None:
    """Freeze parts of a model and add adapters, as the options say."""
    freeze(model, config.freeze)
    if config.lora.rank:
        add_adapters(model, config.lora, config.seed)


def transfer_warning(config: TrainConfig, d_model: int, directions: Directions) -> str:
    """Return a warning if adapters are to learn other languages, or if a model that knows them learns too fast."""
    assert config.init
    others, rate = translates_others(config.init, directions), peak_rate(config, d_model)
    if config.lora.rank and others:
        return (
            "warning: LoRA trains no embeddings, which other languages need; without train.lora all weights are trained"
        )
    if rate <= _HIGH_RATE or config.lora.rank or others:
        return ""
    return f"warning: a learning rate of {rate:.2g} can make a trained model worse; try --set train.lr={rate / 10:.1g}"


def _inherit_weights(
    model: models.Model, tokenizers: TokenizerPair, bundle: Bundle, config: TrainConfig, log: RunLog
) -> None:
    """Copy the weights of a bundle that fit, embeddings by piece."""
    tables = {table.parameter for table in piece_tables(model).values()}
    n = load_matching(model, bundle.model, tables)
    n += copy_rows(model, tokenizers, bundle.model, bundle.tokenizers)
    log.info(f"starts from {config.init}: {n:,} weights")
    if pieces := _describe_pieces(tokenizers, bundle.tokenizers):
        log.info(pieces)
    left = sum(weight.numel() for weight in weights_of(model).values()) - n
    if left and config.lora.rank:
        raise UserError(
            f"train.lora: {left:,} weights are not those of --init and must be trained; leave out train.lora"
        )


def _describe_pieces(tokenizers: TokenizerPair, parents: TokenizerPair) -> str:
    """Say where the embeddings of a new tokenizer come from; nothing if the tokenizer is the parent's."""
    sides = {"": (tokenizers.tgt, parents.tgt)}
    if not (tokenizers.joint and parents.joint):
        sides = {"source: ": (tokenizers.src, parents.src), "target: ": (tokenizers.tgt, parents.tgt)}
    lines = []
    for side, (mine, theirs) in sides.items():
        if mine.to_bytes() == theirs.to_bytes():
            continue
        same, joined, new = PieceCounts.of(match_pieces(mine, theirs))
        lines.append(
            f"{side}{same:,} of {mine.size:,} pieces keep their embeddings, {joined:,} start as the mean of their "
            f"parts, {new:,} are new"
        )
    return "; ".join(lines)
