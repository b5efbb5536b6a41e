"""Words from tokens: which tokens form which word."""

from collections.abc import Sequence

from regard.text.vocab import SPECIALS, UNK, WORD_START

_NO_WORD = -1


def word_indices(tokens: Sequence[str]) -> list[int]:
    """Return the index of each token's word; −1 for tokens of no word (specials and white space)."""
    indices, word, starts_word = [], -1, True
    for token in tokens:
        if token.isspace():
            starts_word = True
            indices.append(_NO_WORD)
        elif token in SPECIALS and token != SPECIALS[UNK]:
            indices.append(_NO_WORD)
        else:
            word += starts_word or token.startswith(WORD_START)
            starts_word = False
            indices.append(word)
    return indices


def is_unknown(token: str) -> bool:
    """Whether this is the unknown token, at the start of a word or inside one."""
    return token.removeprefix(WORD_START) == SPECIALS[UNK]


def join_pieces(pieces: Sequence[str]) -> str:
    """Return the word that these pieces spell."""
    return "".join(pieces).removeprefix(WORD_START)
