"""Typing errors: functions that return a text with one random error, or the text itself if none is possible."""

from collections.abc import Callable, Sequence
from random import Random

_KEYBOARD = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_LOOK_ALIKE = ("o0", "l1i", "s5", "b8", "z2", "g9q", "uv", "vw", "nm", "ce", "eé", "aàá", "ij", "tf")


def _neighbours() -> dict[str, str]:
    """Return the keys around each key of a QWERTY keyboard."""
    places = {key: (row, column) for row, keys in enumerate(_KEYBOARD) for column, key in enumerate(keys)}
    return {
        key: "".join(k for k, (r, c) in places.items() if k != key and abs(r - row) <= 1 and abs(c - column) <= 1)
        for key, (row, column) in places.items()
    }


_NEIGHBOURS = _neighbours()
_SIMILAR = {
    char: "".join(c for group in _LOOK_ALIKE if char in group for c in group if c != char)
    for char in "".join(_LOOK_ALIKE)
}


def char_swap(text: str, random: Random) -> str:
    """Swap two letters that follow each other."""
    places = [i for i in _word_places(text)[:-1] if _is_word(text[i + 1]) and text[i] != text[i + 1]]
    return _replaced(text, places, lambda i: text[i + 1] + text[i], random, width=2)


def missing_char(text: str, random: Random) -> str:
    """Leave out a letter of a word that has others."""
    places = [i for i in _word_places(text) if _is_word(text[i - 1 : i]) or _is_word(text[i + 1 : i + 2])]
    return _replaced(text, places, lambda i: "", random)


def extra_char(text: str, random: Random) -> str:
    """Add a letter whose key is beside that of the letter before it."""
    return _replaced(text, _known(text, _NEIGHBOURS), lambda i: text[i] + _other(text[i], _NEIGHBOURS, random), random)


def nearby_char(text: str, random: Random) -> str:
    """Replace a letter by one whose key is beside it."""
    return _replaced(text, _known(text, _NEIGHBOURS), lambda i: _other(text[i], _NEIGHBOURS, random), random)


def similar_char(text: str, random: Random) -> str:
    """Replace a letter by one that looks like it."""
    return _replaced(text, _known(text, _SIMILAR), lambda i: _other(text[i], _SIMILAR, random), random)


def skipped_space(text: str, random: Random) -> str:
    """Leave out a space."""
    return _replaced(text, [i for i, char in enumerate(text) if char == " "], lambda i: "", random)


def random_space(text: str, random: Random) -> str:
    """Put a space into a word."""
    places = [i for i in _word_places(text)[1:] if _is_word(text[i - 1])]
    return _replaced(text, places, lambda i: " " + text[i], random)


def repeated_char(text: str, random: Random) -> str:
    """Write a letter twice."""
    return _replaced(text, _word_places(text), lambda i: 2 * text[i], random)


def unichar(text: str, random: Random) -> str:
    """Write a double letter once."""
    places = [i for i in _word_places(text)[:-1] if text[i + 1] == text[i]]
    return _replaced(text, places, lambda i: text[i], random, width=2)


TYPOS: dict[str, Callable[[str, Random], str]] = {
    function.__name__: function
    for function in (
        *(char_swap, missing_char, extra_char, nearby_char, similar_char),
        *(skipped_space, random_space, repeated_char, unichar),
    )
}
"""All kinds by name, in the order in which they are applied"""


def _is_word(char: str) -> bool:
    return char.isalnum()


def _word_places(text: str) -> list[int]:
    return [i for i, char in enumerate(text) if _is_word(char)]


def _known(text: str, others: dict[str, str]) -> list[int]:
    return [i for i, char in enumerate(text) if char.lower() in others]


def _other(char: str, others: dict[str, str], random: Random) -> str:
    """Return another character instead of this one, in the same case."""
    chosen = random.choice(others[char.lower()])
    return chosen.upper() if char.isupper() else chosen


def _replaced(
    text: str, places: Sequence[int], replacement: Callable[[int], str], random: Random, width: int = 1
) -> str:
    """Return the text with `width` characters replaced at one of the places."""
    if not places:
        return text
    place = random.choice(places)
    return text[:place] + replacement(place) + text[place + width :]
