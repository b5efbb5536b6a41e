"""The base class of training tasks: from data files to tokenizers, batches and a validator."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple, Self, TypeVar

from regard.data.arrow_tables import data_files
from regard.data.batch_order import Batches
from regard.data.mixture import Mixture
from regard.data.prepared.corpus import is_prepared
from regard.errors import UserError
from regard.evaluate.validation import Validator
from regard.models.encoder_only import EncoderOnlyConfig
from regard.paths import check_input_file
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import TokenizerPair
from regard.train.log import RunLog
from regard.train.recipe import Recipe

T = TypeVar("T")
TOKENIZER_TEXTS = 1_000_000  # a tokenizer is trained on at most this many texts; more do not change it noticeably


@dataclass(frozen=True)
class TrainingFiles:
    """The recipe and data files of a run."""

    recipe: Recipe
    train: tuple[Path, ...]
    valid: tuple[Path, ...] | None
    languages: tuple[str, str] | None = None
    """The two sides of a JSONL, if given"""
    alignments: Path | None = None
    """Word alignments of the training pairs, one line per pair"""
    mixture: Mixture | None = None
    """Several corpora, instead of `train`"""

    def __post_init__(self) -> None:
        for path in (*(() if self.prepared else self.train), *(self.valid or ())):
            data_files(path)
        for config in self.mixture.used if self.mixture else ():
            config.corpus()  # which checks its files
            for path in config.valid:
                data_files(path)
        if self.alignments:
            check_input_file(self.alignments)

    @property
    def prepared(self) -> Path | None:
        """The folder of a prepared corpus, if training is on one"""
        return self.train[0] if len(self.train) == 1 and is_prepared(self.train[0]) else None


class TaskData(NamedTuple):
    batches: Batches
    validator: Validator


class Task(AbstractContextManager["Task"], ABC):
    """A training task with its data files.

    Each file is read once, when it is first needed. What was read is kept until the task is closed.
    """

    noun: ClassVar[str]
    """The kind of model, for the model card"""
    example: ClassVar[str]
    """A command that uses the model directory DIR"""
    code: ClassVar[str]
    """A line of Python that does the same"""

    def __init__(self, files: TrainingFiles) -> None:
        self.files = files
        self.recipe = files.recipe
        self.resources = ExitStack()

    def use(self, recipe: Recipe) -> None:
        """Use another recipe from now on; what was read of the files stays."""
        self.recipe = recipe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.resources.close()

    @classmethod
    @abstractmethod
    def check(cls, recipe: Recipe) -> None:
        """Raise a UserError if the recipe's model or options do not suit this task."""

    @abstractmethod
    def train_tokenizers(self) -> TokenizerPair:
        """Train tokenizers on the training data."""

    @abstractmethod
    def load_data(self, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> TaskData:
        """Tokenise the data and split them; `folder` is that of the run."""

    def count_words(self) -> SeenWords | None:
        """Count the source words of the training data; None if the task does not use them."""
        return None


def check_model(recipe: Recipe, *kinds: str) -> None:
    """Raise a UserError if the model is not one of `kinds` or its parts do not suit the task."""
    if recipe.model.kind not in kinds:
        raise UserError(
            f"task {recipe.task} needs model.kind={' or '.join(kinds)}, not {recipe.model.kind}; see --recipe"
        )
    encoder = getattr(recipe.model, "encoder", None)
    reads_images = encoder is not None and encoder.kind == "image"
    if reads_images != (recipe.task == "caption"):
        needed = "model.encoder.kind=image" if recipe.task == "caption" else "an encoder of text"
        raise UserError(f"task {recipe.task} needs {needed}; see --recipe")
    if isinstance(recipe.model, EncoderOnlyConfig) and (recipe.model.head == "label") != (recipe.task == "classify"):
        raise UserError(f"task {recipe.task} needs model.head={'label' if recipe.task == 'classify' else 'tokens'}")


def check_resampling(recipe: Recipe) -> None:
    """Raise a UserError if BPE-dropout or unigram sampling is on and cannot be used."""
    config = recipe.tokenizer
    if config.resampling is None:
        return
    option, kind = f"tokenizer.{config.resampling}", "bpe" if config.dropout else "unigram"
    if recipe.task != "translate":
        raise UserError(f"{option} is only for task translate, not {recipe.task}; set it to 0")
    if config.kind != kind or not config.byte_fallback:
        raise UserError(f"{option} needs tokenizer.kind: {kind} and tokenizer.byte_fallback: true")


def sample_texts(items: Iterable[T], seed: int) -> list[T]:
    """Return a uniform random sample of a million items (reservoir sampling), or all if there are fewer."""
    generator, remaining = Random(seed), iter(items)
    reservoir = list(islice(remaining, TOKENIZER_TEXTS))
    for i, item in enumerate(remaining, start=TOKENIZER_TEXTS):
        if (place := generator.randrange(i + 1)) < TOKENIZER_TEXTS:
            reservoir[place] = item
    return reservoir


def only_file(paths: Sequence[Path], content: str) -> Path:
    """Return the only one of `paths`, or raise a UserError that names the expected content."""
    if len(paths) != 1:
        raise UserError(f"expected one file of {content}, got {len(paths)}; give one file or see --recipe")
    check_input_file(paths[0])
    return paths[0]
