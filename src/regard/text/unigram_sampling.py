"""Subword regularisation (Kudo 2018): segment words again, at random, with the probabilities of a unigram model.

SentencePiece can sample segmentations too, but its samples differ from process to process, and a resumed run must
see the same text again. Here a segmentation depends only on the word, alpha and random numbers.
"""

from array import array

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.text.key_index import KeyIndex, Keys, random_bits
from regard.text.lattice import END, Lattice
from regard.text.ragged import Ragged
from regard.text.resampling import NONE, Ids, Resampler, Words
from regard.text.tokenizer import SentencePieceTokenizer

_MAX_CHOICES = 4 << 20  # remembered: about 100,000 words, 100 MB
_BASE = 0x9E3779B97F4A7C15  # of the hash of a sequence of symbols: Σ bits(symbol) · base^(symbols after it)


class UnigramSampler(Resampler):
    """Segments texts with a unigram model: a segmentation x of a word has a probability proportional to P(x)^alpha.

    A small alpha makes all segmentations about equally likely, a large one leaves the most likely one only.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, alpha: float) -> None:
        super().__init__(tokenizer)
        pieces = list(tokenizer.piece_scores().values())
        is_byte = [tokenizer.is_byte(i) for i, _ in pieces]
        if not any(is_byte):
            raise UserError("tokenizer.alpha needs a tokenizer with byte_fallback: true")
        if max(score for (_, score), byte in zip(pieces, is_byte, strict=True) if not byte) >= 0.0:
            # the scores of BPE are 0, −1, −2, …; those of unigram are logarithms of probabilities
            raise UserError("tokenizer.alpha needs a tokenizer of kind unigram; this one is of kind bpe")
        self._weights = np.zeros(tokenizer.size + 1)  # alpha · score; a byte has no alternative, so any weight will do
        self._weights[[i for i, _ in pieces]] = [alpha * score for _, score in pieces]
        self._weights[NONE] = -np.inf
        long = np.flatnonzero(self.characters.lengths > 1)
        self._longest = int(self.characters.lengths.max())
        self._symbol_bits = np.append(random_bits(np.arange(tokenizer.size)), np.uint64(0))
        self._pieces = KeyIndex()
        ends = np.concatenate([[0], np.cumsum(self.characters.lengths)])
        symbols = Ragged.gather(self.characters.ids, ends, long)
        self._pieces.add(self._hashes(symbols.matrix(NONE))[np.arange(len(long)), symbols.lengths])
        self._ids = np.append(long, NONE)
        self.forget()

    def sample(self, words: Words, generator: np.random.Generator) -> Ragged:
        numbers = self._number(words)
        return self._lattice.walk(np.asarray(self._roots)[numbers], generator)

    def is_full(self) -> bool:
        return self._lattice.size > _MAX_CHOICES

    def forget(self) -> None:
        self._roots = array("i")
        self._lattice = Lattice()

    def learn(self, symbols: Ids, keys: Keys, fixed: bool) -> None:
        """Add the segmentations of words to the lattice (forward filtering).

        The nodes are the beginnings of a word. The choices of a node are the pieces that a segmentation of this
        beginning can end with, and the probability of a piece is that of all segmentations which end with it.
        """
        pieces = symbols[:, :, None] if fixed else self._find_pieces(symbols)
        probabilities = self._last_piece_probabilities(pieces)
        inside = symbols != NONE
        nodes = np.pad(np.cumsum(inside).reshape(inside.shape) + self._lattice.last, ((0, 0), (1, 0)))
        nodes[:, 0] = END
        before = np.arange(symbols.shape[1])[:, None] - np.arange(pieces.shape[2])  # symbols before each piece
        befores = nodes[:, np.maximum(before, 0)]
        is_choice = pieces != NONE
        self._lattice.add(
            is_choice.sum(2)[inside], pieces[is_choice], befores[is_choice], probabilities.cumsum(2)[is_choice]
        )
        lengths = inside.sum(1)
        self._roots.extend(nodes[np.arange(len(symbols)), lengths].tolist())

    def _find_pieces(self, symbols: Ids) -> Ids:
        """Return [words, ends, lengths]: the piece of length l + 1 that ends with symbol e, or NONE."""
        n, width = symbols.shape
        pieces = np.full((n, width, min(self._longest, width)), NONE)
        pieces[:, :, 0] = symbols
        hashes = self._hashes(symbols)
        for more in range(1, pieces.shape[2]):
            parts = hashes[:, more + 1 :] - hashes[:, : -more - 1] * _power(more + 1)
            pieces[:, more:, more] = self._ids[self._pieces.find(parts.ravel())].reshape(parts.shape)
        return pieces

    def _last_piece_probabilities(self, pieces: Ids) -> NDArray[np.float64]:
        n, width, longest = pieces.shape
        totals = np.full((n, longest + width), -np.inf)  # log Σ P(x)^alpha over the segmentations x of a beginning
        totals[:, longest - 1] = 0.0
        weights = self._weights[pieces]
        with np.errstate(invalid="ignore"):  # −∞ − (−∞) after the end of a word
            for end in range(width):
                weights[:, end] += totals[:, end : end + longest][:, ::-1]
                totals[:, longest + end] = np.logaddexp.reduce(weights[:, end], axis=1)
                weights[:, end] -= totals[:, longest + end, None]
            return np.exp(weights)

    def _hashes(self, symbols: Ids) -> Keys:
        """Return [words, symbols + 1]: the hash of the first 0, 1, 2, … symbols."""
        hashes = np.zeros((len(symbols), symbols.shape[1] + 1), dtype=np.uint64)
        for i, bits in enumerate(self._symbol_bits[symbols].T):
            hashes[:, i + 1] = hashes[:, i] * np.uint64(_BASE) + bits
        return hashes


def _power(n: int) -> np.uint64:
    return np.uint64(pow(_BASE, n, 1 << 64))
