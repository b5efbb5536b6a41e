"""Encoding many texts into arrays of ids."""

from array import array
from collections.abc import Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from regard.text.ragged import Ragged
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizer
from regard.text.vocab import WORD_START

_MAX_WORDS = 1 << 18  # remembered; about 60 MB


class BulkEncoder:
    """Encodes texts as the tokenizer does, each distinct word once if words can be encoded one by one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._by_word = isinstance(tokenizer, SentencePieceTokenizer) and tokenizer.splits_words
        self._forget()

    def __call__(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text."""
        joined = " ".join(texts)
        if not self._by_word or WORD_START in joined or not texts:
            return Ragged.of(self._tokenizer.encode(texts))
        if len(self._numbers) > _MAX_WORDS:
            self._forget()
        words = self._encode_words(joined.split(" "))
        n_words = np.fromiter(map(str.count, texts, repeat(" ")), dtype=np.int64, count=len(texts)) + 1
        return Ragged(words.ids, np.add.reduceat(words.lengths, np.cumsum(n_words) - n_words))

    def _encode_words(self, words: list[str]) -> Ragged:
        numbers = np.fromiter(map(self._numbers.__getitem__, words), dtype=np.int64, count=len(words))
        new = Ragged.of(self._tokenizer.encode(list(self._numbers)[len(self._ends) - 1 :]))
        self._ends.extend((self._ends[-1] + np.cumsum(new.lengths)).tolist())
        self._ids.frombytes(new.ids.astype(np.int32).tobytes())
        ids: NDArray[np.int32] = np.asarray(self._ids)
        return Ragged.gather(ids, np.asarray(self._ends), numbers)

    def _forget(self) -> None:
        self._numbers = _Numbers()
        self._ids = array("i")
        self._ends = array("q", [0])


class _Numbers(dict[str, int]):
    """Numbers words in the order in which they are looked up for the first time."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number
