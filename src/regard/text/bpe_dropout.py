"""BPE-dropout (Provilkov et al. 2020): segment words again, leaving out merges at random.

SentencePiece can sample segmentations too, but its samples differ from process to process, and a resumed run must
see the same text again. Here a segmentation depends only on the word, the dropout probability and the seed.
"""

from array import array

import numpy as np

from regard.text.key_index import KeyIndex, Keys, random_bits
from regard.text.ragged import Ragged
from regard.text.resampling import NONE, Ids, Resampler, Words
from regard.text.tokenizer import SentencePieceTokenizer

_VARIANTS = 16  # segmentations of a word; each occurrence of the word uses one of them
_MAX_REMEMBERED = 1 << 22  # segmentations; about 100 MB
_NO_MERGE = 1 << 40  # a rank above all others


class BpeDropout(Resampler):
    """Segments texts with BPE. Before each merge, every possible merge is left out with probability `p`."""

    def __init__(self, tokenizer: SentencePieceTokenizer, p: float) -> None:
        super().__init__(tokenizer)
        self.p = p
        scores = tokenizer.piece_scores()
        by_score = sorted(scores.values(), key=lambda piece: -piece[1])
        self._by_rank = np.array([i for i, _ in by_score])
        ranks = {i: rank for rank, (i, _) in enumerate(by_score)}
        pairs = {
            (scores[left][0] << 32) + scores[right][0]: ranks[merged]
            for piece, (merged, _) in scores.items()
            if not tokenizer.is_byte(merged)
            for cut in range(1, len(piece))
            if (left := piece[:cut]) in scores and (right := piece[cut:]) in scores
        }
        self._pairs = KeyIndex()
        self._pairs.add(np.fromiter(pairs, dtype=np.uint64))
        self._pair_ranks = np.array([*pairs.values(), _NO_MERGE])
        self._variant_bits = random_bits(np.arange(_VARIANTS))
        self.forget()

    def sample(self, words: Words, generator: np.random.Generator) -> Ragged:
        variants = generator.integers(_VARIANTS, size=len(words))
        numbers = self._number(words) * _VARIANTS + variants
        return Ragged.gather(np.asarray(self._ids), np.asarray(self._ends), numbers)

    def is_full(self) -> bool:
        return len(self._ends) > _MAX_REMEMBERED

    def forget(self) -> None:
        self._ids = array("i")
        self._ends = array("q", [0])

    def learn(self, symbols: Ids, keys: Keys, fixed: bool) -> None:
        """Remember all variants of new words: few words at a time take almost as long as many."""
        pieces = symbols.repeat(_VARIANTS, axis=0)
        if not fixed:
            pieces = self.segment(pieces, (keys[:, None] ^ self._variant_bits).ravel())
        lengths = (pieces != NONE).sum(1)
        self._ends.extend((self._ends[-1] + np.cumsum(lengths)).tolist())
        self._ids.frombytes(pieces[pieces != NONE].astype(np.int32).tobytes())

    def segment(self, symbols: Ids, keys: Keys) -> Ids:
        """Merge the symbols of each word, the best-scored merge first; its key decides which merges are left out."""
        pieces = np.pad(symbols, ((0, 0), (0, 1)), constant_values=NONE)
        ranks = self._find(pieces[:, :-1], pieces[:, 1:])
        result, rows, step = np.full_like(pieces, NONE), np.arange(len(pieces)), 0
        while True:
            best = self._choose(ranks, keys, step)
            more = best != NONE
            result[rows[~more], : pieces.shape[1]] = pieces[~more]
            if not more.any():
                return result
            rows, keys, step = rows[more], keys[more], step + 1
            pieces, ranks = self._merge(pieces[more], ranks[more], best[more])

    def _choose(self, ranks: Ids, keys: Keys, step: int) -> Ids:
        """Return the column of each row's best merge that is not left out, NONE if there is none.

        The best merge is left out with probability p, it and the next with p², and so on: one draw decides.
        """
        salt = random_bits(np.array([step]))
        draws = (random_bits(keys ^ salt) >> np.uint64(11)) * 2.0**-53  # uniform in [0, 1)
        best, ranks, limit = ranks.argmin(1), ranks.copy(), self.p
        left_out = np.flatnonzero(draws < limit)
        while len(left_out):
            ranks[left_out, best[left_out]] = _NO_MERGE
            best[left_out] = ranks[left_out].argmin(1)
            limit *= self.p
            left_out = left_out[(draws[left_out] < limit) & (ranks[left_out, best[left_out]] < _NO_MERGE)]
        return np.where(ranks[np.arange(len(best)), best] < _NO_MERGE, best, NONE)

    def _merge(self, pieces: Ids, ranks: Ids, best: Ids) -> tuple[Ids, Ids]:
        """Return the pieces after merge `best` of each row, and the ranks of their merges; both lose a column."""
        rows, (n, width) = np.arange(len(best)), pieces.shape
        pieces[rows, best] = self._by_rank[ranks[rows, best]]
        stays = np.arange(width) != best[:, None] + 1
        pieces, ranks = pieces[stays].reshape(n, width - 1), ranks[stays[:, :-1]].reshape(n, width - 2)
        ranks[rows, best] = self._find(pieces[rows, best], pieces[rows, best + 1])
        rows, best = rows[best > 0], best[best > 0]
        ranks[rows, best - 1] = self._find(pieces[rows, best - 1], pieces[rows, best])
        return pieces, ranks

    def _find(self, left: Ids, right: Ids) -> Ids:
        """Return the rank of merging two pieces; the best-scored merge has the lowest."""
        keys = ((left << 32) + right).astype(np.uint64)
        return self._pair_ranks[self._pairs.find(keys.ravel())].reshape(left.shape)
