"""Characters that a tokenizer splits into several byte tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.words import byte_of


@dataclass(frozen=True)
class CharacterPart:
    """A byte token as a part of a character."""

    character: str
    """The character that the bytes spell together"""
    index: int
    """Which of its bytes this is, from 0"""
    count: int
    """Its number of bytes"""


def character_parts(tokens: Sequence[str]) -> list[CharacterPart | None]:
    """Return, for each token, the character that it is a byte of; None for other tokens and for invalid bytes.

    >>> [part and (part.character, part.index) for part in character_parts(["▁", "<0xC3>", "<0xA9>", "t"])]
    [None, ('é', 0), ('é', 1), None]
    """
    parts: list[CharacterPart | None] = [None] * len(tokens)
    values = [byte_of(token) for token in tokens]
    start = 0
    while start < len(tokens):
        character, count = _character_at(values, start)
        for index in range(count):
            parts[start + index] = CharacterPart(character, index, count)
        start += max(1, count)
    return parts


def _character_at(values: Sequence[int | None], start: int) -> tuple[str, int]:
    """Return the character whose bytes start there, and their number; 0 if there is none."""
    for count in range(1, 5):
        piece = values[start : start + count]
        if len(piece) < count or None in piece:
            return "", 0
        try:
            return bytes(value for value in piece if value is not None).decode(), count
        except UnicodeDecodeError:
            continue
    return "", 0
