"""Byte-pair tokenizers of language models: GPT-2 and Llama 3 (over bytes), Llama 2 (over characters, then bytes)."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from unicodedata import normalize

from pydantic import Field

from regard.config import Config
from regard.text.merge_pairs import merge_pairs
from regard.text.pretokenizers import split_text
from regard.text.vocab import SPECIALS, UNK, WORD_START

_CACHED_WORDS = 1 << 16
_SPACES = re.compile(" {2,}")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class BytePairOptions(Config):
    """How a text becomes words, and words become symbols."""

    over_bytes: bool = True
    """Symbols are made of bytes, each written as one printable character; otherwise of characters."""
    rules: tuple[str, ...] = ()
    """How texts are split into words; see `split_text`"""
    nfc: bool = False
    """Normalise texts to Unicode's form NFC."""
    prefix: str = Field("", pattern="^(|first|always)$")
    """Put a space before the text; `always`: also after every token of `added`."""
    single_spaces: bool = False
    """Texts have single spaces and none at their ends; others are removed."""
    whole_words: bool = False
    """A word that is a symbol is not merged from its parts."""
    added: tuple[str, ...] = ()
    """Symbols that are recognised in a text before it is split"""


class BytePairTokenizer:
    """Byte-pair encoding with the symbols and merges of a tokenizer.json."""

    suffix = ".json"
    kind = "byte-pair"
    lossless = True

    def __init__(self, symbols: Sequence[str], merges: Sequence[tuple[str, str]], options: BytePairOptions) -> None:
        """`symbols` are those of ids 6, 7, …"""
        self.symbols = [*SPECIALS, *symbols]
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols) if i >= len(SPECIALS)}
        self.merges = tuple(merges)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.options = options
        self._added = frozenset(options.added)
        # Longest first, because one may start with another.
        ordered = sorted(self._added, key=len, reverse=True)
        self._added_pattern = re.compile(f"({'|'.join(map(re.escape, ordered))})") if ordered else None
        self._encode_word = lru_cache(_CACHED_WORDS)(self._encode_new_word)

    @property
    def size(self) -> int:
        return len(self.symbols)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[i for word in self._words(text) for i in self._encode_word(word)] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        content = b"".join(self._bytes(self.symbols[i]) for i in ids if i >= len(SPECIALS))
        text = content.decode("utf-8", "replace")
        return text.removeprefix(" ") if self.options.prefix else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [SPECIALS[i] if i < len(SPECIALS) else _readable(self._bytes(self.symbols[i])) for i in ids]

    def to_bytes(self) -> bytes:
        content = {
            "kind": self.kind,
            "options": self.options.model_dump(mode="json"),
            "symbols": self.symbols[len(SPECIALS) :],
            "merges": self.merges,
        }
        return json.dumps(content, ensure_ascii=False).encode()

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "BytePairTokenizer":
        """Make the tokenizer from the JSON object in its file."""
        merges = [(str(left), str(right)) for left, right in tree["merges"]]
        return cls([str(s) for s in tree["symbols"]], merges, BytePairOptions.parse(tree["options"], "tokenizer"))

    def _words(self, text: str) -> Iterator[str]:
        """Yield the words of a text, which are encoded one by one."""
        parts = [text] if self._added_pattern is None else self._added_pattern.split(text)
        for number, part in enumerate(parts):
            if part in self._added:
                yield part
            elif part:
                yield from split_text(self._normalise(part, is_first=number == 0), self.options.rules)

    def _normalise(self, text: str, is_first: bool) -> str:
        options = self.options
        text = normalize("NFC", text) if options.nfc else text
        text = _SPACES.sub(" ", text.strip()) if options.single_spaces else text
        if options.over_bytes:
            return text
        text = text.replace(" ", WORD_START)
        return WORD_START + text if options.prefix == "always" or (options.prefix and is_first) else text

    def _encode_new_word(self, word: str) -> tuple[int, ...]:
        if word in self._added:
            return (self._ids[word],)
        if self.options.over_bytes:
            word = "".join(map(BYTE_CHARACTERS.__getitem__, word.encode("utf-8", "replace")))
        if self.options.whole_words and word in self._ids:
            return (self._ids[word],)
        symbols = word if self.options.over_bytes else [part for c in word for part in self._known(c)]
        return tuple(self._ids.get(symbol, UNK) for symbol in merge_pairs(symbols, self._ranks))

    def _known(self, character: str) -> list[str]:
        """Return a character, or its bytes if it is not a symbol."""
        return (
            [character]
            if character in self._ids
            else [f"<0x{byte:02X}>" for byte in character.encode("utf-8", "replace")]
        )

    def _bytes(self, symbol: str) -> bytes:
        """Return what a symbol stands for."""
        if symbol in self._added:
            return symbol.encode()
        if self.options.over_bytes:
            return bytes(_BYTE_NUMBERS[c] for c in symbol if c in _BYTE_NUMBERS)
        if byte := _BYTE.fullmatch(symbol):
            return bytes([int(byte[1], 16)])
        return symbol.replace(WORD_START, " ").encode("utf-8", "replace")


def _printable_bytes() -> list[str]:
    """Return a printable character for each byte: itself where it is one, else the next free one from 256 on."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


BYTE_CHARACTERS = _printable_bytes()
_BYTE_NUMBERS = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def _readable(content: bytes) -> str:
    """Return a token as text, with `▁` for spaces; the bytes of an incomplete character by their numbers."""
    try:
        return content.decode().replace(" ", WORD_START)
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in content)
