"""Tokenizers that are lists of symbols: characters, words or labels."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from regard.errors import UserError
from regard.text.vocab import SPECIALS, UNK, WORD_START, without_specials


class ListTokenizer:
    """A list of symbols: characters, words separated by spaces, or labels (each text is one label)."""

    suffix = ".json"

    def __init__(self, kind: str, symbols: Sequence[str]) -> None:
        if kind not in ("char", "word", "label"):
            raise UserError(f"tokenizer kind '{kind}' is unknown; known kinds: char, word, label")
        self.kind = kind
        self.lossless = kind == "char"
        self._symbols = [*SPECIALS, *symbols]
        self._ids = {symbol: i for i, symbol in enumerate(self._symbols) if i >= len(SPECIALS)}
        self._words = [symbol for symbol in symbols if kind == "char" and len(symbol) > 1]
        """Words among the characters, such as tags"""

    @classmethod
    def train(cls, texts: Iterable[str], kind: str, vocab_size: int, words: Sequence[str] = ()) -> "ListTokenizer":
        """Take the most frequent symbols of the texts; `words` are symbols in any case, also among characters."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(_split(kind, text, words))
        # Symbols with equal counts are sorted by name, so that the order of the corpus does not matter.
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        learned = [symbol for symbol, _ in ranked if symbol not in words]
        return cls(kind, [*words, *learned][: vocab_size - len(SPECIALS)])

    @property
    def size(self) -> int:
        return len(self._symbols)

    @property
    def symbols(self) -> list[str]:
        """The string of each id, specials included"""
        return list(self._symbols)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._ids.get(s, UNK) for s in _split(self.kind, text, self._words)] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return _separator(self.kind).join(self._symbols[i] for i in without_specials(ids, keep_unknown=True))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        prefix = WORD_START if self.kind == "word" else ""
        # The unknown token is a word too.
        return [prefix + self._symbols[i] if i >= len(SPECIALS) or i == UNK else self._symbols[i] for i in ids]

    def to_bytes(self) -> bytes:
        content = {"kind": self.kind, "symbols": self._symbols[len(SPECIALS) :]}
        return json.dumps(content, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "ListTokenizer":
        try:
            tree = json.loads(content)
            symbols = [str(symbol) for symbol in tree["symbols"]]
            return cls(str(tree["kind"]), symbols)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError("the tokenizer file is damaged; copy the model folder again") from None


def _split(kind: str, text: str, words: Sequence[str] = ()) -> Sequence[str]:
    match kind:
        case "char":
            return _characters(text, words) if words else text
        case "label":
            return [text]
    return text.split()


def _characters(text: str, whole: Sequence[str]) -> list[str]:
    """Split a text into characters; the words in `whole` are not split."""
    words = re.split("( )", text)
    return [part for word in words for part in ([word] if word in whole else word)]


def _separator(kind: str) -> str:
    return " " if kind == "word" else ""
