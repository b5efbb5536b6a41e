"""BERT's tokenizer: words and punctuation marks, split into the longest pieces that are known."""

import json
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any
from unicodedata import category, normalize

from regard.config import Config
from regard.text.vocab import SPECIALS, UNK, WORD_START

CONTINUES = "##"
"""First characters of a piece that continues a word"""

_CACHED_WORDS = 1 << 16
_MAX_WORD = 100  # characters; longer words are unknown
_CHINESE = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class WordPieceOptions(Config):
    """How a text becomes words."""

    lowercase: bool = True
    strip_accents: bool = True
    clean: bool = True
    """Remove control characters."""
    split_chinese: bool = True
    """Each Chinese character is a word."""
    start: str = "[CLS]"
    """The symbol that every text starts with"""


class WordPieceTokenizer:
    """Pieces of words; the longest first piece that is known is taken, then the longest of the rest, and so on."""

    suffix = ".json"
    kind = "wordpiece"
    lossless = False

    def __init__(self, symbols: Sequence[str], options: WordPieceOptions) -> None:
        """`symbols` are those of ids 6, 7, …; they must hold `options.start`."""
        self._symbols = [*SPECIALS, *symbols]
        self._ids = {symbol: i for i, symbol in enumerate(self._symbols) if i >= len(SPECIALS)}
        self._options = options
        self._start = self._ids[options.start]
        self._encode_word = lru_cache(_CACHED_WORDS)(self._encode_new_word)

    @property
    def size(self) -> int:
        return len(self._symbols)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        ids = [i for word in self._words(text) for i in self._encode_word(word)]
        return [self._start, *ids] if ids else []

    def decode(self, ids: Sequence[int]) -> str:
        tokens = self.tokens([i for i in ids if i != self._start and (i >= len(SPECIALS) or i == UNK)])
        return "".join(tokens).replace(WORD_START, " ").strip()

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._token(i) for i in ids]

    def _token(self, i: int) -> str:
        symbol = self._symbols[i]
        if i < len(SPECIALS) and i != UNK:
            return symbol
        return symbol.removeprefix(CONTINUES) if symbol.startswith(CONTINUES) else WORD_START + symbol

    def to_bytes(self) -> bytes:
        content = {
            "kind": self.kind,
            "options": self._options.model_dump(mode="json"),
            "symbols": self._symbols[len(SPECIALS) :],
        }
        return json.dumps(content, ensure_ascii=False).encode()

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "WordPieceTokenizer":
        """Make the tokenizer from the JSON object in its file."""
        return cls([str(symbol) for symbol in tree["symbols"]], WordPieceOptions.parse(tree["options"], "tokenizer"))

    def _words(self, text: str) -> Iterator[str]:
        """Yield the words and punctuation marks of a text."""
        options = self._options
        if options.clean:
            text = "".join(" " if c.isspace() else c for c in text if c in "\t\n\r" or not _is_control(c))
        if options.split_chinese:
            text = "".join(f" {c} " if _is_chinese(c) else c for c in text)
        if options.strip_accents:
            text = "".join(c for c in normalize("NFD", text) if category(c) != "Mn")
        if options.lowercase:
            text = "".join(map(str.lower, text))  # one by one: the last σ of a word is not special in BERT
        for word in text.split():
            for is_mark, run in groupby(word, _is_punctuation):
                joined = "".join(run)
                yield from joined if is_mark else [joined]

    def _encode_new_word(self, word: str) -> tuple[int, ...]:
        if len(word) > _MAX_WORD:
            return (UNK,)
        ids, start = [], 0
        while start < len(word):
            prefix = CONTINUES if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._ids), None)
            if end is None:
                return (UNK,)
            ids.append(self._ids[prefix + word[start:end]])
            start = end
        return tuple(ids)


def _is_control(character: str) -> bool:
    return character in "\0\ufffd" or category(character) in ("Cc", "Cf", "Co", "Cs")


def _is_chinese(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _CHINESE)


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or category(character)[0] == "P"
