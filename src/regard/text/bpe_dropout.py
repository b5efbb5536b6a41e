"""BPE-dropout (Provilkov et al. 2020): segment words again, leaving out merges at random.

SentencePiece can sample segmentations too, but its samples differ from process to process, and a resumed run must
see the same text again. Here a segmentation depends only on the word, the dropout probability and the seed.
"""

from array import array

import numpy as np
from numpy.typing import NDArray

from regard.text.key_index import KeyIndex, Keys, random_bits
from regard.text.ragged import Ragged
from regard.text.resampling import NONE, Resampler, Words
from regard.text.tokenizer import SentencePieceTokenizer

_VARIANTS = 16  # segmentations of a word; each occurrence of the word uses one of them
_MAX_REMEMBERED = 1 << 20  # segmentations; about 50 MB

Ids = NDArray[np.int64]


class BpeDropout(Resampler):
    """Segments texts with BPE. Before each merge, every possible merge is left out with probability `p`."""

    def __init__(self, tokenizer: SentencePieceTokenizer, p: float) -> None:
        super().__init__(tokenizer)
        self.p = p
        scores = tokenizer.piece_scores()
        self._costs = np.full(tokenizer.size + 1, np.inf)  # of the merge that gives a piece; the last is that of NONE
        self._costs[[i for i, _ in scores.values()]] = [-score for _, score in scores.values()]
        pairs = {
            (scores[left][0] << 32) + scores[right][0]: merged
            for piece, (merged, _) in scores.items()
            if not tokenizer.is_byte(merged)
            for cut in range(1, len(piece))
            if (left := piece[:cut]) in scores and (right := piece[cut:]) in scores
        }
        self._pairs = KeyIndex()
        self._pairs.add(np.fromiter(pairs, dtype=np.uint64))
        self._merged = np.array([*pairs.values(), NONE])
        self._variant_bits = random_bits(np.arange(_VARIANTS))
        self.forget()

    def sample(self, words: Words, generator: np.random.Generator) -> Ragged:
        keys = words.keys ^ self._variant_bits[generator.integers(_VARIANTS, size=len(words))]
        numbers = self._number(words, keys)
        return Ragged.gather(np.asarray(self._ids), np.asarray(self._ends), numbers)

    def is_full(self) -> bool:
        return len(self._ends) > _MAX_REMEMBERED

    def forget(self) -> None:
        self._ids = array("i")
        self._ends = array("q", [0])

    def learn(self, symbols: Ids, keys: Keys) -> None:
        pieces = self.segment(symbols, keys)
        lengths = (pieces != NONE).sum(1)
        self._ends.extend((self._ends[-1] + np.cumsum(lengths)).tolist())
        self._ids.frombytes(pieces[pieces != NONE].astype(np.int32).tobytes())

    def segment(self, symbols: Ids, keys: Keys) -> Ids:
        """Merge the symbols of each word, the best-scored merge first; its key decides which merges are left out."""
        pieces = np.pad(symbols, ((0, 0), (0, 1)), constant_values=NONE)
        merged = self._find(pieces[:, :-1], pieces[:, 1:])
        result, rows, step = pieces.copy(), np.arange(len(pieces)), 0
        while True:
            costs = self._costs[merged]
            costs[self._left_out(merged, keys, step)] = np.inf
            best = costs.argmin(1)
            more = costs[np.arange(len(rows)), best] < np.inf
            result[rows[~more]] = pieces[~more]
            if not more.any():
                return result
            rows, keys, step = rows[more], keys[more], step + 1
            pieces, merged = self._merge(pieces[more], merged[more], best[more])

    def _merge(self, pieces: Ids, merged: Ids, best: Ids) -> tuple[Ids, Ids]:
        """Return the pieces after merge `best` of each row, and what each two neighbours can be merged to then."""
        rows, columns = np.arange(len(best)), np.arange(pieces.shape[1] - 1)
        pieces[rows, best] = merged[rows, best]
        shifted = columns + (columns > best[:, None])
        pieces[:, :-1] = np.take_along_axis(pieces, shifted, 1)
        merged = np.take_along_axis(merged, np.minimum(shifted, len(columns) - 1), 1)
        merged[rows, best] = self._find(pieces[rows, best], pieces[rows, best + 1])
        rows, best = rows[best > 0], best[best > 0]
        merged[rows, best - 1] = self._find(pieces[rows, best - 1], pieces[rows, best])
        return pieces, merged

    def _left_out(self, merged: Ids, keys: Keys, step: int) -> tuple[Ids, Ids]:
        """Return row and column of the merges that are left out."""
        rows, columns = np.nonzero(merged != NONE)
        salt = random_bits(np.arange(merged.shape[1]) + (step << 16))
        draws = (random_bits(keys[rows] ^ salt[columns]) >> np.uint64(11)) * 2.0**-53  # uniform in [0, 1)
        out = draws < self.p
        return rows[out], columns[out]

    def _find(self, left: Ids, right: Ids) -> Ids:
        """Return the ids of merged pieces, NONE where two pieces cannot be merged."""
        keys = ((left << 32) + right).astype(np.uint64)
        return self._merged[self._pairs.find(keys.ravel())].reshape(left.shape)
