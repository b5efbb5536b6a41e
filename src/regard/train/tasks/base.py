"""What a task says of itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from regard.data.batching import Batches
from regard.errors import UserError
from regard.evaluate.validation import Validator
from regard.models.encoder_only import EncoderOnlyConfig
from regard.text.tokenizer import TokenizerPair
from regard.train.log import RunLog
from regard.train.recipe import Recipe

T = TypeVar("T")
_TOKENIZER_TEXTS = 1_000_000  # what the tokenizer learns from; more change nothing but the time


@dataclass(frozen=True)
class Files:
    """What to train on and how."""

    recipe: Recipe
    train: tuple[Path, ...]
    valid: tuple[Path, ...] | None
    languages: tuple[str, str] | None = None
    """If they were given: they pick the sides of a JSONL"""
    alignments: Path | None = None
    """Word alignments of the training pairs, line by line"""


class Data(NamedTuple):
    batches: Batches
    validator: Validator


class Task(Protocol):
    noun: str
    """What the model is, for its card"""
    example: str
    """A command that uses the model directory DIR"""
    code: str
    """And a line of Python"""

    def check(self, recipe: Recipe) -> None:
        """Raise a UserError if the model or another option of the recipe is not for this task."""
        ...

    def tokenizers(self, files: Files) -> TokenizerPair:
        """Learnt from the training data"""
        ...

    def data(self, files: Files, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> Data: ...


def check_model(recipe: Recipe, *kinds: str) -> None:
    if recipe.model.kind not in kinds:
        raise UserError(
            f"task {recipe.task} needs model.kind={' or '.join(kinds)}, not {recipe.model.kind}; look at --recipe"
        )
    encoder = getattr(recipe.model, "encoder", None)
    sees = encoder is not None and encoder.kind == "image"
    if sees != (recipe.task == "caption"):
        wanted = "model.encoder.kind=image" if recipe.task == "caption" else "an encoder of text"
        raise UserError(f"task {recipe.task} needs {wanted}; look at --recipe")
    if isinstance(recipe.model, EncoderOnlyConfig) and (recipe.model.head == "label") != (recipe.task == "classify"):
        raise UserError(f"task {recipe.task} needs model.head={'label' if recipe.task == 'classify' else 'tokens'}")


def check_dropout(recipe: Recipe) -> None:
    config = recipe.tokenizer
    if config.dropout and recipe.task != "translate":
        raise UserError(f"tokenizer.dropout is for the task translate, not {recipe.task}; set it to 0")
    if config.dropout and (config.kind != "bpe" or not config.byte_fallback):
        raise UserError("tokenizer.dropout needs tokenizer.kind: bpe and tokenizer.byte_fallback: true")


def sample(items: Iterable[T], seed: int) -> list[T]:
    """A uniform sample (reservoir sampling), all of them where they are few."""
    generator = Random(seed)
    kept: list[T] = []
    for i, item in enumerate(items):
        if len(kept) < _TOKENIZER_TEXTS:
            kept.append(item)
        elif (place := generator.randrange(i + 1)) < _TOKENIZER_TEXTS:
            kept[place] = item
    return kept


def only_file(paths: Sequence[Path], what: str) -> Path:
    if len(paths) != 1:
        raise UserError(f"expected one file of {what}, got {len(paths)}; look at --recipe")
    if not paths[0].is_file():
        raise UserError(f"{paths[0]}: no such file")
    return paths[0]
