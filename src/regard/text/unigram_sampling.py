"""Subword regularisation (Kudo 2018): segment words again, at random, with the probabilities of a unigram model.

SentencePiece can sample segmentations too, but its samples differ from process to process, and a resumed run must
see the same text again. Here a segmentation depends only on the word, alpha and a random number.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from regard.errors import UserError
from regard.text.tokenizer import SentencePieceTokenizer
from regard.text.vocab import WORD_START

_MAX_CHARACTERS = 40  # longer words keep their usual segmentation
_UNKNOWN_PENALTY = 10.0  # SentencePiece: an unknown character scores this much less than the worst piece


class LastPieces(NamedTuple):
    """The pieces that a segmentation of the first characters of a word can end with."""

    ids: list[list[int]]
    """Of each piece; several for an unknown character, which becomes bytes"""
    starts: list[int]
    """The characters before each piece"""
    cumulative: list[float]
    """Probability of the pieces up to and including each"""


class UnigramSampler:
    """Segments texts with a unigram model: a segmentation x of a word has a probability proportional to P(x)^alpha.

    A small alpha makes all segmentations about equally likely, a large one leaves the most likely one only.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, alpha: float) -> None:
        self.tokenizer = tokenizer
        self.alpha = alpha
        self.pieces = tokenizer.piece_scores()
        try:
            self.byte_ids = [self.pieces.pop(f"<0x{byte:02X}>")[0] for byte in range(256)]
        except KeyError:
            raise UserError("tokenizer.alpha needs a tokenizer with byte_fallback: true") from None
        scores = [score for _, score in self.pieces.values()]
        if max(scores) >= 0.0:  # the scores of BPE are 0, −1, −2, …; those of unigram are logarithms of probabilities
            raise UserError("tokenizer.alpha needs a tokenizer of kind unigram; this one is of kind bpe")
        self.longest = max(map(len, self.pieces))
        self.unknown_score = min(scores) - _UNKNOWN_PENALTY
        self._lattice: Callable[[str], list[LastPieces]] = lru_cache(maxsize=1 << 16)(self._make_lattice)

    def __call__(self, rows: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
        """Return other segmentations (as ids) of the same texts; the same arguments give the same result."""
        texts = [self.tokenizer.decode(row).split(" ") for row in rows]
        draws = iter(np.random.Generator(np.random.Philox(key=seed)).random(sum(map(len, texts))).tolist())
        return [[i for word in words for i in self.segment(word, next(draws))] for words in texts]

    def segment(self, word: str, draw: float) -> list[int]:
        """Return the ids of a word's pieces; `draw` is a random number, uniform in [0, 1)."""
        if len(word) > _MAX_CHARACTERS:
            return self.tokenizer.encode([word])[0]
        lattice = self._lattice(word)
        chosen, end = [], len(lattice) - 1
        while end:  # from the last piece to the first
            ids, starts, cumulative = lattice[end]
            i = min(bisect_right(cumulative, draw), len(ids) - 1)
            # Given the choice of piece i, the draw is uniform between its bounds: stretched to [0, 1) it serves again.
            low = cumulative[i - 1] if i else 0.0
            draw = (draw - low) / (cumulative[i] - low)
            chosen.append(ids[i])
            end = starts[i]
        return [i for ids in reversed(chosen) for i in ids]

    def _make_lattice(self, word: str) -> list[LastPieces]:
        """Return the last pieces of the first 0, 1, 2, … characters (forward filtering).

        The probability of a last piece is that of all segmentations which end with it.
        """
        text = WORD_START + word
        lattice, log_totals = [LastPieces([], [], [])], [0.0]  # log Σ P(x)^alpha over the segmentations x
        for end in range(1, len(text) + 1):
            found = [
                (start, *self.pieces[text[start:end]])
                for start in range(max(0, end - self.longest), end)
                if text[start:end] in self.pieces
            ]
            starts, ids, scores = [start for start, _, _ in found], [[i] for _, i, _ in found], [s for _, _, s in found]
            if end - 1 not in starts:  # an unknown character
                starts, ids = [*starts, end - 1], [*ids, [self.byte_ids[byte] for byte in text[end - 1].encode()]]
                scores = [*scores, self.unknown_score]
            logs = [log_totals[start] + self.alpha * score for start, score in zip(starts, scores, strict=True)]
            top = max(logs)
            sums = list(accumulate(math.exp(log - top) for log in logs))
            log_totals.append(top + math.log(sums[-1]))
            lattice.append(LastPieces(ids, starts, [total / sums[-1] for total in sums]))
        return lattice
