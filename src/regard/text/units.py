"""The units that a text is counted in: words between spaces or, in scripts without spaces, characters."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

LengthUnit = Literal["words", "characters"]

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Characters of scripts that are written without spaces between words, as ranges of a regular expression"""
_SCRIPTS = UNSPACED + "\u3001-\u3004\u3008-\u303f\uff01-\uff65"  # with their punctuation and wide forms
_MARKS = "".join(c for c in map(chr, range(0x0E00, 0x3100)) if unicodedata.category(c)[0] == "M")
"""Vowel signs, tones and the like, which belong to the character before them"""
_SPACELESS = re.compile(f"[{_SCRIPTS}]")
_WORD = re.compile(r"\S+")
_UNIT = re.compile(rf"[{_SCRIPTS}][{_MARKS}\ufe00-\ufe0f]*|[^\s{_SCRIPTS}]+")
_GAP = re.compile(rf"(?<=[{_SCRIPTS}])\s+(?=\S)|(?<=\S)\s+(?=[{_SCRIPTS}])")
_MEAN_WORD = 4  # boundaries inside a word; words that somebody has separated are shorter


def has_spaceless_script(text: str) -> bool:
    """Return whether a text has a character of a script without spaces."""
    return not text.isascii() and _SPACELESS.search(text) is not None


def lacks_spaces(text: str) -> bool:
    """Return whether a text is in a script without spaces, and nobody has separated its words by spaces."""
    if not has_spaceless_script(text):
        return False
    n_touching = len(_UNIT.findall(text)) - len(_WORD.findall(text))
    return n_touching > _MEAN_WORD * len(_GAP.findall(text))


def unit_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each unit of a text, from which alignments and markup count.

    These are the words between spaces. In a text that lacks spaces, each character of such a script is a unit, and so
    is anything else between two of them.
    """
    return [unit.span() for unit in (_UNIT if lacks_spaces(text) else _WORD).finditer(text)]


def split_units(text: str) -> list[str]:
    """Return the units of a text.

    >>> split_units("iPhoneを買った")
    ['iPhone', 'を', '買', 'っ', 'た']
    """
    return [text[start:end] for start, end in unit_spans(text)]


def touching_units(text: str) -> frozenset[int]:
    """Return the indices of the units that follow another one without a space."""
    spans = unit_spans(text)
    return frozenset(i for i in range(1, len(spans)) if spans[i][0] == spans[i - 1][1])


def length_unit(texts: Sequence[str]) -> LengthUnit:
    """Return the unit in which the lengths of these texts are measured: characters if most of them lack spaces."""
    return "characters" if 2 * sum(map(lacks_spaces, texts)) > len(texts) else "words"


def count_units(text: str, unit: LengthUnit) -> int:
    """Return the number of words of a text, or of its characters without spaces."""
    words = text.split()
    return len(words) if unit == "words" else sum(map(len, words))
