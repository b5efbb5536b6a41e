"""BPE-dropout (Provilkov et al. 2020): segment a word anew, leaving merges out at random.

SentencePiece can sample too, but what it draws differs from process to process, and a resumed run must see the
same text again. Here a draw depends on the word and the seed alone.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from regard.text.tokenizer import SentencePieceTokenizer

_VARIANTS = 16  # segmentations drawn of a word, among which each occurrence takes one

_LONGEST = 40  # characters of a word that is segmented anew; merging is quadratic in them


class BpeDropout:
    """At each merge, every possible merge is left out with probability `p`."""

    def __init__(self, tokenizer: SentencePieceTokenizer, p: float) -> None:
        self.tokenizer = tokenizer
        self.p = p
        self.pieces = tokenizer.merge_scores()
        self._variants: Callable[[str], list[list[int]]] = lru_cache(maxsize=1 << 16)(self._draw)

    def __call__(self, rows: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
        """Other segmentations of the same texts: a pure function of its arguments."""
        texts = [self.tokenizer.decode(row).split(" ") for row in rows]
        choices = np.random.Generator(np.random.Philox(key=seed)).integers(_VARIANTS, size=sum(map(len, texts)))
        choice = iter(choices.tolist())
        return [[i for word in words for i in self._variants(word)[next(choice)]] for words in texts]

    def segment(self, word: str, keep: Callable[[], bool]) -> list[int]:
        """The pieces of a word once no merge is left that `keep` says yes to"""
        *_, last = self.stages(word, keep)
        return [i for symbol in last for i in self._ids(symbol)]

    def stages(self, word: str, keep: Callable[[], bool] = lambda: True) -> Iterator[list[str]]:
        """The characters of a word, and what becomes of them as they are merged, best merge first."""
        symbols = list("▁" + word)
        while True:
            yield list(symbols)
            merges = [
                (-self.pieces[pair][1], i)
                for i in range(len(symbols) - 1)
                if (pair := symbols[i] + symbols[i + 1]) in self.pieces and keep()
            ]
            if not merges:
                return
            _, i = min(merges)
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]

    def _draw(self, word: str) -> list[list[int]]:
        if len(word) > _LONGEST:
            return self.tokenizer.encode([word]) * _VARIANTS
        generator = random.Random(word)
        return [self.segment(word, lambda: generator.random() >= self.p) for _ in range(_VARIANTS)]

    def _ids(self, symbol: str) -> list[int]:
        if symbol in self.pieces:
            return [self.pieces[symbol][0]]
        return [self.pieces[f"<0x{byte:02X}>"][0] for byte in symbol.encode()]
