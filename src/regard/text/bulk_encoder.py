"""Encoding many texts into arrays of ids."""

from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.text.key_index import KeyIndex, Keys
from regard.text.ragged import Ragged
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizer
from regard.text.vocab import WORD_START

_BLOCK = 2_048  # texts encoded at a time, whose arrays fit into the processor's cache
_MAX_WORDS = 1 << 19  # remembered; about 100 MB
_SPACE, _LINE_FEED = b" \n"
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
"""Of the first n bytes of a number"""
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits that look random
_HALF = np.uint64(32)


class BulkEncoder:
    """Encodes texts as the tokenizer does, each distinct word once if words can be encoded one by one.

    Words are known by a hash of 64 bits: the probability that a word is taken for another one of those that are
    remembered is 3 in 10^14.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._by_word = isinstance(tokenizer, SentencePieceTokenizer) and tokenizer.splits_words
        self._words: list[str] = []
        self._counts: Counter[str] = Counter()
        self._counted: list[NDArray[np.int64]] = []
        """Numbers of words that are still to be counted"""
        self._forget()

    def __call__(self, texts: Sequence[str], count: bool = False) -> Ragged:
        """Return the ids of each text. With `count`, what spaces separate is counted too."""
        return Ragged.joined([self._encode(texts[i : i + _BLOCK], count) for i in range(0, len(texts), _BLOCK)])

    def pop_counts(self) -> Counter[str]:
        """Return how often each word was counted since the last time."""
        self._add_counts()
        counts, self._counts = self._counts, Counter()
        return counts

    def _encode(self, texts: Sequence[str], count: bool) -> Ragged:
        lines = "\n".join(texts)
        if not self._by_word or WORD_START in lines or lines.count("\n") != len(texts) - 1:
            if count:
                self._counts.update(lines.split())
            return Ragged.of(self._tokenizer.encode(texts))
        if len(self._index) > _MAX_WORDS:
            self._forget()
        content = lines.encode() + b"\n"
        characters = np.frombuffer(content, dtype=np.uint8)
        ends = np.flatnonzero((characters == _SPACE) | (characters == _LINE_FEED))
        starts = np.concatenate([[0], ends[:-1] + 1])
        numbers = self._numbers(content, starts, ends)
        if count:
            self._counted.append(numbers)
        words = Ragged.gather(np.asarray(self._ids), np.asarray(self._ends), numbers)
        last_words = np.flatnonzero(characters[ends] == _LINE_FEED)  # of each text
        return Ragged(words.ids, np.add.reduceat(words.lengths, np.concatenate([[0], last_words[:-1] + 1])))

    def _numbers(self, content: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each word, after encoding those that are new."""
        keys = _hashes(content, starts, ends)
        numbers = self._index.find(keys)
        missing = np.flatnonzero(numbers < 0)
        if not len(missing):
            return numbers
        new, first = np.unique(keys[missing], return_index=True)
        places = missing[first]
        words = [content[i:j].decode() for i, j in zip(starts[places].tolist(), ends[places].tolist(), strict=True)]
        encoded = Ragged.of(self._tokenizer.encode(words))
        self._index.add(new)
        self._words += words
        self._ends.extend((self._ends[-1] + np.cumsum(encoded.lengths)).tolist())
        self._ids.frombytes(encoded.ids.astype(np.int32).tobytes())
        numbers[missing] = self._index.find(keys[missing])
        return numbers

    def _add_counts(self) -> None:
        """Add the words that were counted by their numbers."""
        if not self._counted:
            return
        counts = np.bincount(np.concatenate(self._counted))
        used = np.flatnonzero(counts)
        words = {self._words[i]: n for i, n in zip(used.tolist(), counts[used].tolist(), strict=True)}
        words.pop("", None)  # between two spaces
        self._counts.update(words)
        self._counted = []

    def _forget(self) -> None:
        self._add_counts()
        self._index = KeyIndex()
        self._words = []
        self._ids = array("i")
        self._ends = array("q", [0])


def _hashes(content: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Keys:
    """Return a hash of each part of a text, computed from eight bytes at a time."""
    eights = np.ndarray(len(content), dtype="<u8", buffer=content + bytes(8), strides=(1,))  # from every byte on
    lengths = ends - starts
    hashes = lengths.astype(np.uint64)
    rest, offset = np.arange(len(starts)), 0
    while len(rest):
        part = eights[starts[rest] + offset] & _MASKS[np.minimum(lengths[rest] - offset, 8)]
        mixed = (hashes[rest] ^ part) * _MIX
        hashes[rest] = (mixed ^ (mixed >> _HALF)) * _MIX
        offset += 8
        rest = rest[lengths[rest] > offset]
    return hashes
