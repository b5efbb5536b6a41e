"""Random segmentations of texts that are given as ids: what BPE-dropout and unigram sampling share.

Words are found in arrays of ids and known by a 64-bit hash of their pieces, and everything is computed for many words
at once: Python never sees a single word. Two of a million words have the same hash with a probability of 3 · 10⁻⁸.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from regard.text.key_index import KeyIndex, Keys, random_bits
from regard.text.ragged import Ragged
from regard.text.tokenizer import SentencePieceTokenizer
from regard.text.vocab import WORD_START

_MAX_CHARACTERS = 40  # longer words keep their usual segmentation; unknown characters count as bytes
_ROWS = 1024  # new words segmented at a time
NONE = -1
"""Fills the rows of a matrix of ids"""

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """The words of texts."""

    pieces: Ragged
    """Ids of each word's pieces"""
    keys: Keys
    """A hash of each word's pieces"""
    rows: Ids
    """The text that each word is part of"""

    def __len__(self) -> int:
        return len(self.keys)


class Resampler(ABC):
    """Segments texts again, at random. A result depends only on the texts, the options and the seed.

    Several threads may call it at once. What it remembers of words makes it faster and never changes a result.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        pieces = tokenizer.tokens(range(tokenizer.size))
        self._starts_word = np.array([piece.startswith(WORD_START) for piece in pieces])
        self._piece_hashes = random_bits(np.arange(tokenizer.size))
        self.characters = _characters(tokenizer)
        self._character_ends = np.concatenate([[0], np.cumsum(self.characters.lengths)])
        self._index = KeyIndex()
        self._lock = Lock()

    def __call__(self, texts: Ragged, seed: int) -> Ragged:
        """Return other segmentations (as ids) of the same texts; the same arguments give the same result."""
        words = self._find_words(texts)
        generator = np.random.Generator(np.random.Philox(key=seed))
        with self._lock:
            sampled = self.sample(words, generator)
        lengths = np.bincount(words.rows, sampled.lengths, len(texts.lengths)).astype(np.int64)
        return Ragged(sampled.ids, lengths)

    @abstractmethod
    def sample(self, words: Words, generator: np.random.Generator) -> Ragged:
        """Return the ids of a random segmentation of each word."""

    @abstractmethod
    def is_full(self) -> bool:
        """Whether the words that are remembered take too much memory."""

    @abstractmethod
    def forget(self) -> None:
        """Free the memory that words take."""

    @abstractmethod
    def learn(self, symbols: Ids, keys: Keys, fixed: bool) -> None:
        """Remember new words: rows of symbols, filled up with NONE.

        The symbols of a word are its characters and bytes as ids or, if they are fixed, the pieces that it keeps.
        """

    def _number(self, words: Words) -> Ids:
        """Return the number of each word in the order of `learn`; new words are learned first."""
        keys = words.keys
        numbers = self._index.find(keys)
        if not (numbers == NONE).any():
            return numbers
        if self.is_full():
            self._index = KeyIndex()
            self.forget()
            numbers[:] = NONE
        missing = np.flatnonzero(numbers == NONE)
        new, first = np.unique(keys[missing], return_index=True)
        for symbols, order, fixed in self._matrices(words, missing[first]):
            self.learn(symbols, new[order], fixed)
            self._index.add(new[order])
        return self._index.find(keys)

    def _matrices(self, words: Words, chosen: Ids) -> Iterator[tuple[Ids, Ids, bool]]:
        """Yield the symbols of the chosen words in matrices, which of `chosen` they are, and whether they are fixed."""
        ends = np.concatenate([[0], np.cumsum(words.pieces.lengths)])
        pieces = Ragged.gather(words.pieces.ids, ends, chosen)
        symbols = Ragged.gather(self.characters.ids, self._character_ends, pieces.ids)
        piece_ends = np.concatenate([[0], np.cumsum(symbols.lengths)])[np.cumsum(pieces.lengths)]
        lengths = np.diff(piece_ends, prepend=0)
        for fixed, part in ((False, Ragged(symbols.ids, lengths)), (True, pieces)):
            rows = np.flatnonzero((lengths > len(WORD_START) + _MAX_CHARACTERS) == fixed)
            rows = rows[np.argsort(part.lengths[rows], kind="stable")]  # similar lengths together
            ends = np.concatenate([[0], np.cumsum(part.lengths)])
            for start in range(0, len(rows), _ROWS):
                order = rows[start : start + _ROWS]
                yield Ragged.gather(part.ids, ends, order).matrix(NONE), order, fixed

    def _find_words(self, texts: Ragged) -> Words:
        """Split texts before each piece that starts a word."""
        ids, ends = texts.ids, np.cumsum(texts.lengths)
        first = self._starts_word[ids]
        first[(ends - texts.lengths)[texts.lengths > 0]] = True  # a text starts a word in any case
        starts = np.flatnonzero(first)
        lengths = np.diff(starts, append=len(ids))
        offsets = np.arange(len(ids)) - np.repeat(starts, lengths)
        weights = random_bits(np.arange(lengths.max(initial=0))) | np.uint64(1)
        keys = np.add.reduceat(self._piece_hashes[ids] * weights[offsets], starts) if len(starts) else np.empty(0, "u8")
        return Words(Ragged(ids, lengths), keys, np.searchsorted(ends, starts, side="right"))


def _characters(tokenizer: SentencePieceTokenizer) -> Ragged:
    """Return for each piece the ids of its characters; a byte or a special token is a character itself."""
    ids = {piece: i for piece, (i, _) in tokenizer.piece_scores().items()}
    rows = [[i] for i in range(tokenizer.size)]
    for piece, i in ids.items():
        if not tokenizer.is_byte(i) and all(character in ids for character in piece):
            rows[i] = [ids[character] for character in piece]
    return Ragged.of(rows)
