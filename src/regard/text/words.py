"""Which tokens make up which word."""

from collections.abc import Sequence

from regard.text.vocab import SPECIALS, UNK

_OUTSIDE = -1
_MARK = "▁"


def words_of(tokens: Sequence[str]) -> list[int]:
    """The word that each token belongs to; −1: to none, as specials and spaces."""
    places, word, fresh = [], -1, True
    for token in tokens:
        if token.isspace():
            fresh = True
            places.append(_OUTSIDE)
        elif token in SPECIALS and token != SPECIALS[UNK]:
            places.append(_OUTSIDE)
        else:
            word += fresh or token.startswith(_MARK)
            fresh = False
            places.append(word)
    return places


def is_unknown(token: str) -> bool:
    """Whether it stands for something that the vocabulary does not have, at the start of a word or inside"""
    return token.removeprefix(_MARK) == SPECIALS[UNK]


def joined(tokens: Sequence[str]) -> str:
    """The tokens of one word as that word"""
    return "".join(tokens).removeprefix(_MARK)
