"""Words from tokens: which tokens form which word."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.text.tokenizer import Tokenizer
from regard.text.vocab import SPECIALS, UNK, WORD_START

_NO_WORD = -1


def word_indices(tokens: Sequence[str]) -> list[int]:
    """Return the index of each token's word; −1 for tokens of no word (specials and white space)."""
    indices, word, starts_word = [], -1, True
    for token in tokens:
        if token.isspace():
            starts_word = True
            indices.append(_NO_WORD)
        elif _is_special(token):
            indices.append(_NO_WORD)
        else:
            word += starts_word or token.startswith(WORD_START)
            starts_word = False
            indices.append(word)
    return indices


class WordFinder:
    """Finds the words in whole batches of ids, as `word_indices` does in the tokens of one text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = tokenizer.tokens(range(tokenizer.size))
        self._is_space = np.array([token.isspace() for token in tokens])
        self._starts_word = np.array([token.startswith(WORD_START) for token in tokens])
        self._in_word = np.array([not (token.isspace() or _is_special(token)) for token in tokens])

    def __call__(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each token's word; −1 for tokens of no word;  ids [texts, tokens]"""
        in_word, positions = self._in_word[ids], np.arange(ids.shape[1])
        last_space = np.maximum.accumulate(np.where(self._is_space[ids], positions, -1), axis=1)
        last_in_word = np.maximum.accumulate(np.where(in_word, positions, -2), axis=1)
        before = np.pad(last_in_word, ((0, 0), (1, 0)), constant_values=-2)[:, :-1]
        starts = in_word & (self._starts_word[ids] | (before < last_space))
        return np.where(in_word, np.cumsum(starts, axis=1) - 1, _NO_WORD)


def _is_special(token: str) -> bool:
    """Whether this token is not part of a text; an unknown token is."""
    return token in SPECIALS and token != SPECIALS[UNK]


def is_unknown(token: str) -> bool:
    """Whether this is the unknown token, at the start of a word or inside one."""
    return token.removeprefix(WORD_START) == SPECIALS[UNK]


def join_pieces(pieces: Sequence[str]) -> str:
    """Return the word that these pieces spell."""
    return "".join(pieces).removeprefix(WORD_START)
