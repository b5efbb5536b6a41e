"""Words from tokens: which tokens form which word."""

import codecs
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.text.target_tag import is_tag
from regard.text.tokenizer import Tokenizer
from regard.text.units import has_spaceless_script, lacks_spaces, unit_spans
from regard.text.vocab import SPECIALS, UNK, WORD_START

_NO_WORD = -1
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_MULTI_BYTE = "<0x[EF]"  # the first byte of a character of three or four


@dataclass(frozen=True)
class TokenWords:
    """The words that tokens form: what is between spaces or, in a text that lacks spaces, each token by itself.

    Such a token may cover several units of the text (see `unit_spans`), from which alignments are counted.
    """

    indices: list[int]
    """The index of each token's word; −1 for tokens of no word (specials, tags and white space)"""
    n_units: list[int]
    """The number of units in each word, 1 between spaces"""

    @classmethod
    def of(cls, tokens: Sequence[str]) -> "TokenWords":
        """Find the words of the tokens of one text."""
        if _may_lack_spaces("".join(tokens)):
            parts = list(_token_texts(tokens))
            if lacks_spaces("".join(parts)):
                return cls._by_token(tokens, parts)
        indices = _between_spaces(tokens)
        return cls(indices, [1] * (max(indices, default=_NO_WORD) + 1))

    @classmethod
    def _by_token(cls, tokens: Sequence[str], parts: Sequence[str]) -> "TokenWords":
        """Each token is a word, unless it shares a unit with the one before, as pieces of a Latin word do."""
        spans = unit_spans("".join(parts))
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        words, position, last = cls([], []), 0, -1
        for token, part in zip(tokens, parts, strict=True):
            first = bisect_right(ends, position)  # the unit of its first character, or of the next one if it has none
            position += len(part)
            if token.isspace() or _is_special(token) or first == len(spans):
                words.indices.append(_NO_WORD)
                continue
            if first > last:
                words.n_units.append(0)
            newest = max(first, last, bisect_left(starts, position) - 1)
            words.n_units[-1] += newest - last
            words.indices.append(len(words.n_units) - 1)
            last = newest
        return words

    def words_of_units(self) -> NDArray[np.int64]:
        """Return the word that each unit belongs to."""
        return np.repeat(np.arange(len(self.n_units)), self.n_units)

    def first_units(self) -> list[int]:
        """Return, for each token, the first unit of its word; −1 for tokens of no word."""
        starts = np.cumsum([0, *self.n_units]).tolist()
        return [_NO_WORD if word < 0 else starts[word] for word in self.indices]


def word_indices(tokens: Sequence[str]) -> list[int]:
    """Return the index of each token's word; −1 for tokens of no word (specials and white space)."""
    return TokenWords.of(tokens).indices


def _between_spaces(tokens: Sequence[str]) -> list[int]:
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


def _may_lack_spaces(token: str) -> bool:
    return has_spaceless_script(token) or re.search(_MULTI_BYTE, token) is not None


def _token_texts(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the text of each token; a character of several bytes is the text of its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in tokens:
        if byte := _BYTE.fullmatch(token):
            yield decoder.decode(bytes.fromhex(byte[1]))
            continue
        decoder.reset()
        yield (
            ""
            if _is_special(token)
            else "\N{REPLACEMENT CHARACTER}"
            if is_unknown(token)
            else token.replace(WORD_START, " ")
        )


class WordFinder:
    """Finds the words in whole batches of ids, as `TokenWords` does in the tokens of one text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokens = tokens = tokenizer.tokens(range(tokenizer.size))
        self._is_space = np.array([token.isspace() for token in tokens])
        self._starts_word = np.array([token.startswith(WORD_START) for token in tokens])
        self._in_word = np.array([not (token.isspace() or _is_special(token)) for token in tokens])
        self._may_lack_spaces = np.array([_may_lack_spaces(token) for token in tokens])

    def __call__(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each token's word; −1 for tokens of no word;  ids [texts, tokens]"""
        in_word, positions = self._in_word[ids], np.arange(ids.shape[1])
        last_space = np.maximum.accumulate(np.where(self._is_space[ids], positions, -1), axis=1)
        last_in_word = np.maximum.accumulate(np.where(in_word, positions, -2), axis=1)
        before = np.pad(last_in_word, ((0, 0), (1, 0)), constant_values=-2)[:, :-1]
        starts = in_word & (self._starts_word[ids] | (before < last_space))
        words = np.where(in_word, np.cumsum(starts, axis=1) - 1, _NO_WORD)
        for row, found in self.without_spaces(ids).items():
            words[row] = found.indices
        return words

    def without_spaces(self, ids: NDArray[np.int64]) -> dict[int, TokenWords]:
        """Return the words of those texts that may lack spaces; in all others each word is one unit."""
        rows = np.flatnonzero(self._may_lack_spaces[ids].any(1)).tolist()
        return {row: TokenWords.of([self._tokens[i] for i in ids[row]]) for row in rows}


def byte_of(token: str) -> int | None:
    """Return the byte that a token such as `<0xE2>` stands for; None for other tokens."""
    byte = _BYTE.fullmatch(token)
    return None if byte is None else int(byte[1], 16)


def _is_special(token: str) -> bool:
    """Whether this token is not part of a text, as the tag of a target language; an unknown token is."""
    return (token in SPECIALS and token != SPECIALS[UNK]) or is_tag(token)


def is_unknown(token: str) -> bool:
    """Whether this is the unknown token, at the start of a word or inside one."""
    return token.removeprefix(WORD_START) == SPECIALS[UNK]


def join_pieces(pieces: Sequence[str]) -> str:
    """Return the word that these pieces spell."""
    return "".join(pieces).removeprefix(WORD_START)
