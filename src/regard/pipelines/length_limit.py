"""The limit on the number of tokens that a model is given at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import UserError
from regard.text.tokenizer import Tokenizer

_CHARS_PER_TOKEN = 32
_MORE_CHARS = 1_000


@dataclass(frozen=True)
class TooLong:
    """What is wrong with a text that is over the limit."""

    problem: str
    """Continues a sentence that begins with the name of the text"""
    is_option: bool
    """Whether the limit is an option, not a property of the model"""

    def describe(self, name: str, option: str) -> str:
        """Say in one line what is wrong with the text called `name`, and what to do; `option` sets the limit."""
        return f"{name} {self.problem}; split it" + (f", or raise {option}" if self.is_option else "")


class TooLongError(UserError):
    """A text is over the limit."""


@dataclass(frozen=True)
class LengthLimit:
    """The most tokens that a model is given: of an option and of the model itself, the smaller."""

    option: int
    model: int | None

    @property
    def tokens(self) -> int:
        return self.option if self.model is None else min(self.option, self.model)

    @property
    def chars(self) -> int:
        """More characters than a text within the limit has; counting them is cheaper than tokenising a book"""
        return _CHARS_PER_TOKEN * self.tokens + _MORE_CHARS

    def encode(self, texts: Sequence[str], tokenizer: Tokenizer) -> tuple[list[list[int]], dict[int, TooLong]]:
        """Return the ids of each text, and which texts are too long: these have no ids."""
        rows = tokenizer.encode([text if len(text) <= self.chars else "" for text in texts])
        too_long = {}
        for i, text in enumerate(texts):
            if len(text) > self.chars:
                too_long[i] = self._too_long(f"{len(text):,} characters")
            elif len(rows[i]) > self.tokens:
                too_long[i], rows[i] = self._too_long(f"{len(rows[i]):,} tokens"), []
        return rows, too_long

    def encode_one(self, text: str, tokenizer: Tokenizer, name: str) -> list[int]:
        """Return the ids of a text; if it is too long, raise an error that calls it `name`."""
        [ids], too_long = self.encode([text], tokenizer)
        if too_long:
            raise TooLongError(too_long[0].describe(name, "max_source"))
        return ids

    def _too_long(self, size: str) -> TooLong:
        is_option = self.model is None or self.option < self.model
        limit = (
            f"the limit of {self.tokens:,} tokens" if is_option else f"the {self.tokens:,} tokens that the model reads"
        )
        return TooLong(f"has {size}, more than {limit}", is_option)
