"""Random changes of sentence pairs during training: case, typing errors, final punctuation, and pairs of noise.

Each has the probability with which it is applied to a pair. Tags in front of the source are not part of the text here.
"""

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, Literal

from pydantic import Field, model_validator

from regard.config import Config
from regard.data.typos import TYPOS
from regard.errors import UserError

_END_MARKS = (".。．｡।۔።։", "!！﹗", "?？؟﹖;", ",，、،", ":：", ";；؛")
"""Marks of the same meaning at the end of a text, in several scripts"""
_SCRIPTS = (
    *((0x41, 0x7A), (0xC0, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x531, 0x586), (0x5D0, 0x5EA), (0x621, 0x64A)),
    *((0x905, 0x939), (0xE01, 0xE2E), (0x10D0, 0x10F0), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5)),
    (0xAC00, 0xD7A3),
)
"""Ranges of characters, one per script, of which the letters are used for noise"""
_DEFAULT_TYPO = 0.1


class _Modifier(Config):
    probability: float = Field(ge=0.0, le=1.0)
    """With which a pair is changed."""


class UpperCase(_Modifier):
    """Both sides in capitals"""

    kind: Literal["UpperCase"] = "UpperCase"

    def __call__(self, src: str, tgt: str, random: Random) -> tuple[str, str]:
        return src.upper(), tgt.upper()


class TitleCase(_Modifier):
    """A capital at the beginning of each word of both sides"""

    kind: Literal["TitleCase"] = "TitleCase"

    def __call__(self, src: str, tgt: str, random: Random) -> tuple[str, str]:
        return _title(src), _title(tgt)


class RemoveEndPunct(_Modifier):
    """Both sides without the mark at their end, if both end with the same kind of mark"""

    kind: Literal["RemoveEndPunct"] = "RemoveEndPunct"

    def __call__(self, src: str, tgt: str, random: Random) -> tuple[str, str]:
        for marks in _END_MARKS:
            if src[-1:] in marks and tgt[-1:] in marks:
                shorter = src.rstrip(marks).rstrip(), tgt.rstrip(marks).rstrip()
                return shorter if all(shorter) else (src, tgt)
        return src, tgt


class Typos(_Modifier):
    """Typing errors in the source, each kind at most once and with its own probability.

    Without any of these options, each kind has a probability of 0.1; otherwise those that are not given have 0.
    """

    kind: Literal["Typos"] = "Typos"
    char_swap: float = Field(0.0, ge=0.0, le=1.0)
    missing_char: float = Field(0.0, ge=0.0, le=1.0)
    extra_char: float = Field(0.0, ge=0.0, le=1.0)
    nearby_char: float = Field(0.0, ge=0.0, le=1.0)
    similar_char: float = Field(0.0, ge=0.0, le=1.0)
    skipped_space: float = Field(0.0, ge=0.0, le=1.0)
    random_space: float = Field(0.0, ge=0.0, le=1.0)
    repeated_char: float = Field(0.0, ge=0.0, le=1.0)
    unichar: float = Field(0.0, ge=0.0, le=1.0)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, options: Any) -> Any:
        if isinstance(options, dict) and not options.keys() & TYPOS.keys():
            return {**options, **dict.fromkeys(TYPOS, _DEFAULT_TYPO)}
        return options

    def __call__(self, src: str, tgt: str, random: Random) -> tuple[str, str]:
        for name, typo in TYPOS.items():
            if random.random() < getattr(self, name):
                src = typo(src, random)
        return src, tgt


class Noise(_Modifier):
    """An additional pair whose two sides are the same random words, which teaches the model to copy"""

    kind: Literal["Noise"] = "Noise"
    min_word_length: int = Field(2, ge=1, le=100)
    max_word_length: int = Field(5, ge=1, le=100)
    max_words: int = Field(6, ge=1, le=100)

    @model_validator(mode="after")
    def _check(self) -> "Noise":
        if self.min_word_length > self.max_word_length:
            raise ValueError("min_word_length is more than max_word_length")
        return self

    def text(self, random: Random) -> str:
        """Return random words of one script."""
        letters = random.choice(_alphabets())
        lengths = [
            random.randint(self.min_word_length, self.max_word_length) for _ in range(random.randint(1, self.max_words))
        ]
        return " ".join("".join(random.choice(letters) for _ in range(length)) for length in lengths)


Change = UpperCase | TitleCase | RemoveEndPunct | Typos
"""Modifiers that change a pair"""
Modifier = Change | Noise
_CLASSES: dict[str, type[Modifier]] = {
    cls.__name__: cls for cls in (UpperCase, TitleCase, RemoveEndPunct, Typos, Noise)
}


def parse_modifiers(entries: Any, where: str) -> tuple[Modifier, ...]:
    """Return modifiers from a list of entries such as {"Noise": 0.01, "max_words": 6}; lists in it are joined."""
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise UserError(f"{where}: modifiers must be a list of entries such as 'UpperCase: 0.05'")
    modifiers: list[Modifier] = []
    for entry in entries:
        modifiers += parse_modifiers(entry, where) if isinstance(entry, list) else [_parse_modifier(entry, where)]
    return tuple(modifiers)


def _parse_modifier(entry: Any, where: str) -> Modifier:
    if not isinstance(entry, Mapping) or not entry:
        raise UserError(f"{where}: a modifier must be written as its name and probability, such as 'UpperCase: 0.05'")
    (name, probability), *options = entry.items()
    if name not in _CLASSES:
        raise UserError(f"{where}: modifier '{name}' is not supported; choose one of {', '.join(_CLASSES)}")
    return _CLASSES[name].parse({"probability": probability, **dict(options)}, f"{where}: modifier {name}")


def _title(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))


@cache
def _alphabets() -> tuple[str, ...]:
    return tuple("".join(filter(str.isalpha, map(chr, range(first, last + 1)))) for first, last in _SCRIPTS)
