"""Terms annotated in a source, for models trained to follow them: `the __source__ house __target__ Haus __done__`"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from regard.text.fitted_text import FittedText
from regard.text.units import unit_spans

SOURCE, TARGET, DONE = SYMBOLS = ("__source__", "__target__", "__done__")
"""Before a term, between it and its target, and after its target"""


class AnnotatedSpan(NamedTuple):
    """A term in a text, from character `start` to `end`, and how it is to be translated"""

    start: int
    end: int
    target: str


class _Piece(NamedTuple):
    """A part of an annotated text"""

    text: str
    start: int
    """Where the part is in the text before; of what was inserted, where the term is that it belongs to"""
    is_inserted: bool = False


def annotate(text: str, spans: Sequence[AnnotatedSpan]) -> str:
    """Return a text with targets after some of its terms; `spans` are in the order of the text.

    >>> annotate("the house, too", [AnnotatedSpan(4, 9, "Haus")])
    'the __source__ house __target__ Haus __done__ , too'
    """
    return " ".join(piece.text for piece in _pieces(text, spans))


def annotate_fitted(fitted: FittedText, spans: Sequence[AnnotatedSpan]) -> FittedText:
    """Annotate terms of a text as the model reads it. Inserted words count as parts of the first word of their term."""
    if not spans:
        return fitted
    pieces, words = _pieces(fitted.text, spans), [start for start, _ in unit_spans(fitted.text)]
    offsets, end = list[int](), 0
    for piece in pieces:
        offsets.append(end)
        end += len(piece.text) + 1
    text = " ".join(piece.text for piece in pieces)
    numbers = []
    for start, _ in unit_spans(text):
        i = bisect_right(offsets, start) - 1
        place = pieces[i].start + (0 if pieces[i].is_inserted else start - offsets[i])
        word = bisect_right(words, place) - 1
        numbers.append(fitted.word_numbers[word] if fitted.word_numbers else word)
    return replace(fitted, text=text, word_numbers=tuple(numbers))


def _pieces(text: str, spans: Sequence[AnnotatedSpan]) -> list[_Piece]:
    """Return the parts of an annotated text, which are separated by spaces."""
    pieces, done = list[_Piece](), 0
    for start, end, target in spans:
        term = text[start:end]
        pieces += [_between(text, done, start), _Piece(SOURCE, start, True), _Piece(term, start)]
        pieces += [_Piece(inserted, start, True) for inserted in (TARGET, target, DONE)]
        done = end
    return [piece for piece in [*pieces, _between(text, done, len(text))] if piece.text]


def _between(text: str, start: int, end: int) -> _Piece:
    part = text[start:end]
    return _Piece(part.strip(), start + len(part) - len(part.lstrip()))
