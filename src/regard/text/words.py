"""Which tokens make up which word."""

from collections.abc import Sequence

from regard.text.vocab import SPECIALS, UNK

_OUTSIDE = -1
_MARK = "▁"


def words_of(tokens: Sequence[str]) -> list[int]:
    """The word that each token belongs to; −1: to none, as specials and spaces."""
    # Of a tokenizer of words every token is marked, and only the unknown one lacks the mark.
    whole = _MARK not in tokens and all(t.startswith(_MARK) or t in SPECIALS for t in tokens)
    places, word, fresh = [], -1, True
    for token in tokens:
        if token.isspace():
            fresh = True
            places.append(_OUTSIDE)
        elif token in SPECIALS and token != SPECIALS[UNK]:
            places.append(_OUTSIDE)
        else:
            word += fresh or token.startswith(_MARK) or (whole and token == SPECIALS[UNK])
            fresh = False
            places.append(word)
    return places


def joined(tokens: Sequence[str]) -> str:
    """The tokens of one word as that word"""
    return "".join(tokens).removeprefix(_MARK)
