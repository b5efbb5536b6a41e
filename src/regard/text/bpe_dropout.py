"""BPE-dropout (Provilkov et al. 2020): segment words again, leaving out merges at random.

SentencePiece can sample segmentations too, but its samples differ from process to process, and a resumed run must
see the same text again. Here a segmentation depends only on the word, the dropout probability and the seed.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from regard.text.tokenizer import SentencePieceTokenizer
from regard.text.vocab import WORD_START

_VARIANTS = 16  # segmentations sampled per word; each occurrence of the word uses one of them
_MAX_CHARACTERS = 40  # longer words keep their usual segmentation; merging takes time quadratic in the characters


def _always() -> bool:
    return True


class BpeDropout:
    """Segments texts with BPE. Before each merge, every possible merge is left out with probability `p`."""

    def __init__(self, tokenizer: SentencePieceTokenizer, p: float) -> None:
        self.tokenizer = tokenizer
        self.p = p
        self.pieces = tokenizer.piece_scores()
        self._variants: Callable[[str], list[list[int]]] = lru_cache(maxsize=1 << 16)(self._sample_variants)

    def __call__(self, rows: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
        """Return other segmentations (as ids) of the same texts; the same arguments give the same result."""
        texts = [self.tokenizer.decode(row).split(" ") for row in rows]
        choices = np.random.Generator(np.random.Philox(key=seed)).integers(_VARIANTS, size=sum(map(len, texts)))
        choice = iter(choices.tolist())
        return [[i for word in words for i in self._variants(word)[next(choice)]] for words in texts]

    def segment(self, word: str, keep: Callable[[], bool] = _always) -> list[int]:
        """Return the ids of a word's pieces after the last merge; `keep` decides about each possible merge."""
        *_, pieces = self.stages(word, keep)
        return [i for piece in pieces for i in self._ids(piece)]

    def stages(self, word: str, keep: Callable[[], bool] = _always) -> Iterator[list[str]]:
        """Yield the characters of a word, then its pieces after each merge; the best-scored merge comes first."""
        pieces = list(WORD_START + word)
        while True:
            yield list(pieces)
            merges = [
                (-self.pieces[merged][1], i)
                for i in range(len(pieces) - 1)
                if (merged := pieces[i] + pieces[i + 1]) in self.pieces and keep()
            ]
            if not merges:
                return
            _, i = min(merges)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]

    def _sample_variants(self, word: str) -> list[list[int]]:
        if len(word) > _MAX_CHARACTERS:
            return self.tokenizer.encode([word]) * _VARIANTS
        generator = random.Random(word)
        return [self.segment(word, lambda: generator.random() >= self.p) for _ in range(_VARIANTS)]

    def _ids(self, piece: str) -> list[int]:
        """The piece's id, or the ids of its bytes if it is not in the vocabulary."""
        if piece in self.pieces:
            return [self.pieces[piece][0]]
        return [self.pieces[f"<0x{byte:02X}>"][0] for byte in piece.encode()]
