"""The tokenizer of Marian and OPUS-MT models: SentencePiece pieces with ids of a separate vocabulary."""

import base64
import json
from collections.abc import Sequence

import sentencepiece

from regard.errors import UserError
from regard.text.moses_punctuation import normalise_punctuation
from regard.text.target_tag import is_tag, split_tag
from regard.text.vocab import SPECIALS, UNK


class MarianTokenizer:
    """Pieces of one language's SentencePiece model, numbered by a vocabulary that both languages may share.

    A text may start with a tag such as `>>fra<<`, which tells a multilingual model the target language.
    """

    suffix = ".json"
    lossless = False
    kind = "marian"

    def __init__(self, model: bytes, symbols: Sequence[str], language: str, shares_ids: bool) -> None:
        """`symbols` are the tokens of ids 6, 7, …; `shares_ids`: both languages have the same."""
        self.model = model
        self.language = language
        self._symbols = [*SPECIALS, *symbols]
        self._ids = {symbol: i for i, symbol in enumerate(self._symbols) if i >= len(SPECIALS)}
        self.shares_ids = shares_ids
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            model = b""
        if not model:  # SentencePiece accepts an empty one
            raise UserError("not a SentencePiece model; the tokenizer file is damaged") from None

    @property
    def size(self) -> int:
        return len(self._symbols)

    @property
    def tags(self) -> list[str]:
        """The tags of target languages, such as `>>fra<<`"""
        return [symbol for symbol in self._symbols if is_tag(symbol)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        tag, rest = split_tag(text)
        pieces = self._processor.encode(normalise_punctuation(rest, self.language), out_type=str)
        return [self._ids.get(piece, UNK) for piece in ([tag, *pieces] if tag else pieces)]

    def decode(self, ids: Sequence[int]) -> str:
        pieces = [self._symbols[i] for i in ids if i >= len(SPECIALS)]
        return str(self._processor.decode_pieces(pieces)).replace("▁", " ").strip()

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._symbols[i] for i in ids]

    def to_bytes(self) -> bytes:
        content = {
            "kind": self.kind,
            "language": self.language,
            "shares_ids": self.shares_ids,
            "sentencepiece": base64.b64encode(self.model).decode(),
            "symbols": self._symbols[len(SPECIALS) :],
        }
        return json.dumps(content, ensure_ascii=False).encode()

    @classmethod
    def from_tree(cls, tree: dict[str, object]) -> "MarianTokenizer":
        """Make the tokenizer from the JSON object in its file."""
        model = base64.b64decode(str(tree["sentencepiece"]), validate=True)
        symbols = tree["symbols"]
        if not isinstance(symbols, list):
            raise TypeError
        return cls(model, [str(symbol) for symbol in symbols], str(tree["language"]), bool(tree["shares_ids"]))
