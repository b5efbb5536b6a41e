"""The tokenizers of a run that starts from another model: those of that model, or new ones."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import UNK, WORD_START
from regard.train.recipe import Recipe
from regard.train.tasks.base import Task
from regard.train.tasks.pairs import PairTask

_SAMPLE = 2_000  # texts of each side on which two tokenizers are compared
_MANY_PIECES = 1.5  # times the pieces of a new tokenizer
_MANY_UNKNOWN = 0.05  # of the tokens


class TokenizerChoice(NamedTuple):
    tokenizers: TokenizerPair
    reason: str


def choose_tokenizers(recipe: Recipe, task: Task, parents: TokenizerPair) -> TokenizerChoice:
    """Return the tokenizers of the model that a run starts from, or new ones, and say why."""
    train_new = cache(task.train_tokenizers)
    if recipe.task == "classify":  # its labels come from its data
        parents = TokenizerPair(parents.src, train_new().tgt)
    choice = recipe.train.init_tokenizer
    may_change = isinstance(task, PairTask) and recipe.task == "translate"
    if choice == "keep" or (choice == "auto" and (not may_change or not _trains_embeddings(recipe))):
        return TokenizerChoice(parents, f"that of {recipe.train.init}")
    new = train_new()
    if choice == "new":
        return TokenizerChoice(new, "new, by train.init_tokenizer=new")
    assert isinstance(task, PairTask)
    missing = _missing_symbol(recipe, parents)
    if missing:
        return TokenizerChoice(new, f"new, because that of {recipe.train.init} has no piece {missing}")
    for side, texts in zip(("src", "tgt"), task.sample_pairs(), strict=True):
        problem = _problem(getattr(parents, side), getattr(new, side), texts[:_SAMPLE])
        if problem:
            name = "source" if side == "src" else "target"
            return TokenizerChoice(new, f"new, because that of {recipe.train.init} {problem} on the {name} side")
    return TokenizerChoice(parents, f"that of {recipe.train.init}, which suits this text")


def _trains_embeddings(recipe: Recipe) -> bool:
    return not recipe.train.lora.rank and "embeddings" not in recipe.train.freeze


def _missing_symbol(recipe: Recipe, parents: TokenizerPair) -> str:
    """Return a symbol of the recipe that the source tokenizer would split; nothing if there is none."""
    known = set(parents.src.tokens(range(parents.src.size)))
    return next((symbol for symbol in recipe.tokenizer.symbols if known.isdisjoint({symbol, WORD_START + symbol})), "")


def _problem(parent: Tokenizer, new: Tokenizer, texts: Sequence[str]) -> str:
    """Say why the parent's tokenizer does not suit the texts; nothing if it does."""
    ids = [i for text in parent.encode(texts) for i in text]
    ratio = len(ids) / max(1, sum(map(len, new.encode(texts))))
    if ratio > _MANY_PIECES:
        return f"needs {ratio:.1f} times as many pieces"
    unknown = sum(i == UNK for i in ids) / max(1, len(ids))
    return f"does not know {unknown:.0%} of the tokens" if unknown > _MANY_UNKNOWN else ""
