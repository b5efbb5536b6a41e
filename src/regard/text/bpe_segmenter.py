"""Byte-pair encoding of a word, merge by merge."""

from collections.abc import Iterator

from regard.text.tokenizer import SentencePieceTokenizer
from regard.text.vocab import WORD_START


class BpeSegmenter:
    """Segments words as the tokenizer does, and shows how. Without BPE the result differs from the tokenizer's."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self._pieces = tokenizer.piece_scores()
        symbols = sorted(tokenizer.symbol_ids)
        self._symbols = dict(zip(tokenizer.tokens(symbols), symbols, strict=True))

    def segment(self, word: str) -> list[int]:
        """Return the ids of a word's pieces after the last merge."""
        *_, pieces = self.stages(word)
        return [i for piece in pieces for i in self._ids(piece)]

    def stages(self, word: str) -> Iterator[list[str]]:
        """Yield the characters of a word, then its pieces after each merge; the best-scored merge comes first.

        A symbol of the tokenizer is one piece from the beginning.
        """
        pieces = [WORD_START + word] if WORD_START + word in self._symbols else list(WORD_START + word)
        while True:
            yield list(pieces)
            merges = [
                (-self._pieces[merged][1], i)
                for i in range(len(pieces) - 1)
                if (merged := pieces[i] + pieces[i + 1]) in self._pieces
            ]
            if not merges:
                return
            _, i = min(merges)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]

    def _ids(self, piece: str) -> list[int]:
        """The piece's id, or the ids of its bytes if it is not in the vocabulary."""
        if piece in self._symbols:
            return [self._symbols[piece]]
        if piece in self._pieces:
            return [self._pieces[piece][0]]
        return [self._pieces[f"<0x{byte:02X}>"][0] for byte in piece.encode()]
