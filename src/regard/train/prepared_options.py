"""The options of a recipe that a prepared corpus depends on."""

from typing import Any

from regard.config import flatten
from regard.data.prepared.corpus import PreparedCorpus
from regard.errors import UserError
from regard.train.recipe import Recipe

_TOKENIZER_OPTIONS = ("kind", "vocab_size", "joint", "byte_fallback", "lossless", "symbols")
"""Options that decide which pieces a tokenizer has"""


def prepared_options(recipe: Recipe) -> dict[str, Any]:
    """Return the options that a prepared corpus depends on, in the form of a recipe."""
    tree = recipe.model_dump(mode="json")
    return {
        "tokenizer": {name: tree["tokenizer"][name] for name in _TOKENIZER_OPTIONS},
        "batch": {"max_tokens": tree["batch"]["max_tokens"]},
        "data": tree["data"],
    }


def check_options(corpus: PreparedCorpus, recipe: Recipe) -> None:
    """Raise a UserError if a corpus was prepared with other options than those of a recipe."""
    before, now = flatten(corpus.facts["options"]), flatten(prepared_options(recipe))
    for name, value in before.items():
        if now.get(name) != value:
            raise UserError(
                f"{corpus.folder}: was prepared with {name}={value}, but the recipe has {now.get(name)}; prepare it "
                f"again with the same --recipe and --set, or add --set {name}={value}"
            )
