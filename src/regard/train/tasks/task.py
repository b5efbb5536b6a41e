"""What a task says of itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from regard.data.batching import Batches
from regard.errors import UserError
from regard.text.tokenizer import TokenizerPair
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.validate import Validator

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


class Data(NamedTuple):
    batches: Batches
    validator: Validator


class Task(Protocol):
    noun: str
    """What the model is, for its card"""
    kinds: tuple[str, ...]
    """Models that can do it"""
    example: str
    """A command that uses the model directory DIR"""

    def tokenizers(self, files: Files) -> TokenizerPair:
        """Learnt from the training data"""
        ...

    def data(self, files: Files, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> Data: ...


def check_tokenizer(recipe: Recipe) -> None:
    config = recipe.tokenizer
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
