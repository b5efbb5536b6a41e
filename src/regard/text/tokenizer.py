"""Tokenizers: SentencePiece (BPE, unigram), characters, words and bytes behind one protocol.

Ids 0 … 5 are the specials of `vocab`; `encode` never produces them except UNK, `decode` leaves them out.
"""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import sentencepiece
from pydantic import Field

from regard.config import Config
from regard.errors import UserError
from regard.files import write_atomically
from regard.text.vocab import SPECIALS, UNK

_MARK = "▁"  # how SentencePiece writes a space


class TokenizerConfig(Config):
    kind: Literal["bpe", "unigram", "char", "word", "bytes"] = "bpe"
    vocab_size: int = Field(8000, ge=16, le=1_000_000)
    """Upper bound of the number of ids; a small corpus may give fewer, and bytes are always 262."""
    joint: bool = True
    """One vocabulary for both languages, or one each."""
    byte_fallback: bool = True
    """SentencePiece: unknown characters become bytes, so nothing is ever lost."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE-dropout while training: the chance of leaving a merge out."""
    lossless: bool = False
    """SentencePiece: keep every space and line break, as a language model needs it; char and bytes always do."""


class Tokenizer(Protocol):
    suffix: str
    """Of its file"""

    @property
    def lossless(self) -> bool:
        """Whether decoding gives back every known character, white space too"""
        ...

    @property
    def size(self) -> int: ...
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The ids as pieces for display, specials included; a word-initial piece starts with `▁`."""
        ...

    def to_bytes(self) -> bytes: ...


class SentencePieceTokenizer:
    suffix = ".spm"

    def __init__(self, model: bytes) -> None:
        self._model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            model = b""
        if not model:
            raise UserError("the tokenizer file is not a SentencePiece model; copy it again") from None
        self.lossless = bool(self._processor.piece_to_id("\n") != UNK)  # only such a model has a line break as a piece
        self._mark = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in _MARK.encode()]

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> "SentencePieceTokenizer":
        model = io.BytesIO()
        lossless: dict[str, Any] = {
            "remove_extra_whitespaces": False,
            "add_dummy_prefix": False,
            "allow_whitespace_only_pieces": True,  # indentation in few pieces
            "user_defined_symbols": ["\n"],
        }
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=model,
                model_type=config.kind,
                vocab_size=config.vocab_size,
                hard_vocab_limit=False,
                byte_fallback=config.byte_fallback,
                character_coverage=0.9999 if config.byte_fallback else 1.0,
                normalization_rule_name="identity",
                pad_id=0,
                unk_id=1,
                bos_id=2,
                eos_id=3,
                control_symbols=list(SPECIALS[4:]),
                max_sentence_length=100_000,
                minloglevel=2,
                num_threads=1,  # more threads reorder ties: the same text must give the same pieces
                **(lossless if config.lossless else {}),
            )
        except (RuntimeError, OSError) as error:
            raise UserError(_training_failure(str(error), config)) from None
        return cls(model.getvalue())

    @property
    def size(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        if self.lossless and any(_MARK in text for text in texts):
            return [self._encode_marked(text) for text in texts]
        return self._processor.encode(list(texts), num_threads=1)

    def _encode_marked(self, text: str) -> list[int]:
        """SentencePiece writes a space as `▁` and would read that character back as a space: it goes as bytes."""
        first, *others = self._processor.encode(text.split(_MARK), num_threads=1)
        return first + [i for part in others for i in (*self._mark, *part)]

    def decode(self, ids: Sequence[int]) -> str:
        return self._processor.decode(_ordinary(ids))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def merge_scores(self) -> dict[str, tuple[int, float]]:
        """piece → (id, score); of two merges BPE makes the one whose piece has the higher score."""
        pieces = range(len(SPECIALS), self.size)
        return {self._processor.id_to_piece(i): (i, self._processor.get_score(i)) for i in pieces}

    def to_bytes(self) -> bytes:
        return self._model


class ListTokenizer:
    """A plain list of symbols: characters, words between spaces, or labels, each of which is a whole text."""

    suffix = ".json"

    def __init__(self, kind: str, symbols: Sequence[str]) -> None:
        if kind not in ("char", "word", "label"):
            raise UserError(f"tokenizer kind '{kind}' is unknown; it is char, word or label")
        self.kind = kind
        self.lossless = kind == "char"
        self._symbols = [*SPECIALS, *symbols]
        self._ids = {symbol: i for i, symbol in enumerate(self._symbols) if i >= len(SPECIALS)}

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> "ListTokenizer":
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(_split(config.kind, text))
        # Ties in count are broken by the symbol, so that the order of the corpus does not matter.
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(config.kind, [symbol for symbol, _ in ranked[: config.vocab_size - len(SPECIALS)]])

    @property
    def size(self) -> int:
        return len(self._symbols)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._ids.get(s, UNK) for s in _split(self.kind, text)] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return _joint(self.kind).join(self._symbols[i] for i in _ordinary(ids, keep_unknown=True))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        mark = "▁" if self.kind == "word" else ""
        # An unknown word is a word too.
        return [mark + self._symbols[i] if i >= len(SPECIALS) or i == UNK else self._symbols[i] for i in ids]

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
            raise UserError("the tokenizer file is damaged; copy it again") from None


class ByteTokenizer:
    """UTF-8 bytes: nothing to learn, nothing unknown, nothing lost."""

    suffix = ".json"
    size = len(SPECIALS) + 256
    lossless = True

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[len(SPECIALS) + byte for byte in text.encode("utf-8", "replace")] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i - len(SPECIALS) for i in _ordinary(ids)).decode("utf-8", "replace")

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [SPECIALS[i] if i < len(SPECIALS) else _byte_name(i - len(SPECIALS)) for i in ids]

    def to_bytes(self) -> bytes:
        return b'{"kind": "bytes"}'


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of the two sides; one object on both when the vocabulary is joint."""

    src: Tokenizer
    tgt: Tokenizer

    @property
    def joint(self) -> bool:
        return self.src is self.tgt

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.src.to_bytes())
        digest.update(self.tgt.to_bytes())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in (*folder.glob("*.spm"), *folder.glob("*.json")):
            stale.unlink()  # of an earlier attempt, perhaps of another kind
        sides = {"joint": self.src} if self.joint else {"src": self.src, "tgt": self.tgt}
        for name, tokenizer in sides.items():
            write_atomically(folder / f"{name}{tokenizer.suffix}", tokenizer.to_bytes())

    @classmethod
    def load(cls, folder: Path) -> "TokenizerPair":
        if joint := _load(folder, "joint"):
            return cls(joint, joint)
        src, tgt = _load(folder, "src"), _load(folder, "tgt")
        if src is None or tgt is None:
            raise UserError(f"{folder}: no tokenizer there (joint.spm, or src.spm and tgt.spm)")
        return cls(src, tgt)


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    if config.lossless:
        _check_lossless(config)
    if config.kind == "bytes":
        return ByteTokenizer()
    if config.kind in ("char", "word"):
        return ListTokenizer.train(texts, config)
    return SentencePieceTokenizer.train(texts, config)


def _load(folder: Path, name: str) -> Tokenizer | None:
    try:
        if (path := folder / f"{name}.spm").is_file():
            return SentencePieceTokenizer(path.read_bytes())
        if (path := folder / f"{name}.json").is_file():
            content = path.read_bytes()
            return ByteTokenizer() if content == ByteTokenizer().to_bytes() else ListTokenizer.from_bytes(content)
    except OSError as error:
        raise UserError(f"{folder}: the tokenizer cannot be read ({error.strerror})") from None
    return None


def _ordinary(ids: Sequence[int], keep_unknown: bool = False) -> list[int]:
    return [int(i) for i in ids if i >= len(SPECIALS) or (keep_unknown and i == UNK)]


def _split(kind: str, text: str) -> Sequence[str]:
    match kind:
        case "char":
            return text
        case "label":
            return [text]
    return text.split()


def _joint(kind: str) -> str:
    return " " if kind == "word" else ""


def _byte_name(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>"


def _check_lossless(config: TokenizerConfig) -> None:
    if config.kind == "word":
        raise UserError("tokenizer.lossless: words lose white space; set tokenizer.kind to bpe, unigram, char or bytes")
    if config.kind in ("bpe", "unigram") and not config.byte_fallback:
        raise UserError("tokenizer.lossless needs tokenizer.byte_fallback: true")
    if config.dropout:
        raise UserError("tokenizer.dropout segments words between single spaces; set it to 0 with tokenizer.lossless")


def _training_failure(message: str, config: TokenizerConfig) -> str:
    if "vocab" in message.lower() or "required_chars" in message:
        return (
            f"tokenizer: a vocabulary of {config.vocab_size} does not fit this text; "
            f"set tokenizer.vocab_size to another number ({message.strip().splitlines()[-1][-120:]})"
        )
    return f"tokenizer: SentencePiece could not learn from this text ({message.strip()[-160:]})"
