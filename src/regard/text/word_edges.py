"""Where words begin and end in sequences of tokens: which tokens go on with a word that others have begun."""

import re
import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.text.tokenizer import Tokenizer
from regard.text.units import UNSPACED
from regard.text.vocab import SPECIALS

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_CONTINUATION = range(0x80, 0xC0)  # bytes inside a character
_NO_LETTERS = {
    0xC2,
    0xE2,
    *range(0xE3, 0xEA),
}  # first bytes of punctuation, and of characters of scripts without spaces


@dataclass(frozen=True, eq=False)
class WordEdges:
    """For each token of a vocabulary, [V] bool, what it is like at its edges.

    A letter here is a letter or digit of a script that separates words by spaces.
    """

    starts_with_letter: NDArray[np.bool_]
    """It would continue a word that ends with a letter"""
    starts_with_mark: NDArray[np.bool_]
    """It would continue any word: it begins with an accent, a vowel sign or the like"""
    ends_with_letter: NDArray[np.bool_]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "WordEdges":
        tokens = tokenizer.tokens(range(tokenizer.size))
        return cls(
            np.array([_starts_with_letter(token) for token in tokens]),
            np.array([_starts_with_mark(token) for token in tokens]),
            np.array([_ends_with_letter(token) for token in tokens]),
        )


def is_letter(character: str) -> bool:
    """Whether this is a letter or digit of a script that separates words by spaces.

    >>> is_letter("ß"), is_letter("猫"), is_letter("-"), is_letter("")
    (True, False, False, False)
    """
    return character.isalnum() and _UNSPACED.match(character) is None


def _byte(token: str) -> int | None:
    byte = _BYTE.fullmatch(token)
    return int(byte[1], 16) if byte else None


def _is_mark(character: str) -> bool:
    return character != "" and unicodedata.category(character)[0] == "M"


def _starts_with_letter(token: str) -> bool:
    if (byte := _byte(token)) is not None:
        return is_letter(chr(byte)) if byte < 0x80 else byte not in _NO_LETTERS
    return token not in SPECIALS and is_letter(token[:1])


def _starts_with_mark(token: str) -> bool:
    if (byte := _byte(token)) is not None:
        return byte in _CONTINUATION
    return _is_mark(token[:1])


def _ends_with_letter(token: str) -> bool:
    if (byte := _byte(token)) is not None:
        return byte >= 0x80 or is_letter(chr(byte))
    return token not in SPECIALS and (is_letter(token[-1:]) or _is_mark(token[-1:]))


def edges_of_text(text: str) -> tuple[bool, bool]:
    """Return whether a text starts with a letter, and whether it ends with one."""
    return is_letter(text[:1]), is_letter(text[-1:]) or (_is_mark(text[-1:]) and not _UNSPACED.search(text[-2:]))
