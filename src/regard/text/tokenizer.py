"""Tokenizers with one protocol: SentencePiece (BPE, unigram), characters, words and bytes.

Ids 0 … 5 are the specials of `vocab`. `encode` produces none of them except UNK; `decode` leaves them out.
"""

import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Literal, Protocol

import sentencepiece
from pydantic import Field, field_validator

from regard.config import Config
from regard.errors import UserError
from regard.files import write_atomically
from regard.manifest import read_regular
from regard.text.list_tokenizer import ListTokenizer
from regard.text.sentencepiece_file import user_defined_ids
from regard.text.vocab import SPECIALS, UNK, WORD_START, without_specials

_MAX_LINE = 100_000  # bytes; SentencePiece learns nothing from longer lines

_SOME_TEXTS = 100  # encoded by one call, which takes longer than encoding a few texts one by one
_MANY_TEXTS = 1_000  # encoded by several threads

_STEMS = ("joint", "src", "tgt")
"""Names of tokenizer files without their suffixes"""


class TokenizerConfig(Config):
    kind: Literal["bpe", "unigram", "char", "word", "bytes"] = "bpe"
    vocab_size: int = Field(8000, ge=16, le=1_000_000)
    """Upper bound of the number of ids. A small corpus may give fewer; bytes always give 262."""
    joint: bool = True
    """One vocabulary for both languages instead of one for each."""
    byte_fallback: bool = True
    """SentencePiece: encode unknown characters as bytes, so that no text is lost."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """BPE-dropout during training: the probability of leaving out a merge."""
    alpha: float = Field(0.0, ge=0.0, le=100.0)
    """Unigram sampling during training: segmentation x has a probability proportional to P(x)^alpha; 0: off."""
    lossless: bool = False
    """SentencePiece: keep every space and line break, as language models need; char and bytes always keep them."""
    symbols: tuple[str, ...] = ()
    """Words that are one token each and never split, such as the tag `>>fra<<` in front of a source."""

    @field_validator("symbols")
    @classmethod
    def _check_symbols(cls, symbols: tuple[str, ...]) -> tuple[str, ...]:
        for symbol in symbols:
            if symbol.split() != [symbol] or WORD_START in symbol or symbol in SPECIALS:
                raise ValueError(f"{symbol!r} is not a word; give words without spaces, such as >>fra<<")
        if len(set(symbols)) < len(symbols):
            raise ValueError("a symbol is given twice")
        return symbols

    @property
    def resampling(self) -> Literal["dropout", "alpha"] | None:
        """The option by which each occurrence of a word gets a random segmentation during training; None: none"""
        return "dropout" if self.dropout else "alpha" if self.alpha else None


class Tokenizer(Protocol):
    """Converts between texts and ids."""

    suffix: str
    """Suffix of its file."""

    @property
    def lossless(self) -> bool:
        """Whether decoding restores every known character, including white space."""
        ...

    @property
    def size(self) -> int:
        """Number of ids, specials included."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of the ids, specials included; a piece that starts a word begins with `▁`."""
        ...

    def to_bytes(self) -> bytes:
        """Return the content of the tokenizer's file."""
        ...


class SentencePieceTokenizer:
    """BPE or unigram pieces of a SentencePiece model."""

    suffix = ".spm"

    def __init__(self, model: bytes) -> None:
        self._model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            model = b""
        if not model:
            raise UserError("the tokenizer file is not a SentencePiece model; copy the model folder again") from None
        self.lossless = bool(self._processor.piece_to_id("\n") != UNK)  # only lossless models have a line-break piece
        self._word_start_bytes = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in WORD_START.encode()]

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> "SentencePieceTokenizer":
        model = io.BytesIO()
        lossless: dict[str, Any] = {
            "remove_extra_whitespaces": False,
            "add_dummy_prefix": False,
            "allow_whitespace_only_pieces": True,  # so that indentation takes few pieces
            "user_defined_symbols": ["\n"],
        }
        whole_words = {"user_defined_symbols": [WORD_START + symbol for symbol in config.symbols]}
        by_word = config.kind == "bpe" and not config.lossless  # other kinds learn something else from single words
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_count_words(texts) if by_word else iter(texts),
                input_format="tsv" if by_word else "text",
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
                max_sentence_length=_MAX_LINE,
                minloglevel=2,
                num_threads=1,  # more would order ties at random; the same text must give the same pieces
                **(lossless if config.lossless else whole_words),
            )
        except (RuntimeError, OSError) as error:
            raise UserError(_training_failure(str(error), config)) from None
        return cls(model.getvalue())

    @property
    def size(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        if self.lossless and any(WORD_START in text for text in texts):
            return [self._encode_with_word_start(text) for text in texts]
        if len(texts) < _SOME_TEXTS:
            return [self._processor.encode(text) for text in texts]
        threads = 1 if len(texts) < _MANY_TEXTS else os.cpu_count() or 1
        return self._processor.encode(list(texts), num_threads=threads)

    def _encode_with_word_start(self, text: str) -> list[int]:
        """Encode the character `▁` as bytes: SentencePiece would decode it as a space."""
        first, *others = (self._processor.encode(part) for part in text.split(WORD_START))
        return first + [i for part in others for i in (*self._word_start_bytes, *part)]

    def decode(self, ids: Sequence[int]) -> str:
        return self._processor.decode(without_specials(ids))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        pieces = self._pieces
        return [pieces[i] for i in ids]

    @cached_property
    def _pieces(self) -> list[str]:
        """All pieces; asking SentencePiece for each takes ten times as long."""
        return [self._processor.id_to_piece(i) for i in range(self.size)]

    def normalise(self, text: str) -> str:
        """Return the text as the rules of the model rewrite it before it is split, with `▁` for spaces."""
        return str(self._processor.normalize(text))

    @property
    def splits_words(self) -> bool:
        """Whether each word between spaces is encoded by itself, whatever is around it.

        A unigram model adds up the scores of a whole text, where rounding may decide between two segmentations.
        """
        return not self.lossless and self.is_bpe

    @cached_property
    def is_bpe(self) -> bool:
        """Whether the pieces are BPE's and not unigram's.

        Scores of BPE are 0, −1, −2, … in the order of merges; those of unigram are logarithms of probabilities.
        """
        pieces = (i for i in range(len(SPECIALS), self.size) if not self.is_byte(i))
        return all(float(self._processor.get_score(i)).is_integer() for i in pieces)

    def is_byte(self, i: int) -> bool:
        """Whether this id is a byte of an unknown character."""
        return bool(self._processor.is_byte(i))

    @cached_property
    def symbol_ids(self) -> frozenset[int]:
        """The ids of `TokenizerConfig.symbols`, which are whole words."""
        return frozenset(i for i in user_defined_ids(self._model) if self._pieces[i].startswith(WORD_START))

    def piece_scores(self) -> dict[str, tuple[int, float]]:
        """Return piece → (id, score), without the symbols, which are not made of other pieces.

        BPE makes the merge whose piece has the highest score first; for unigram it is the piece's log-probability.
        """
        ids = (i for i in range(len(SPECIALS), self.size) if i not in self.symbol_ids)
        return {self._pieces[i]: (i, self._processor.get_score(i)) for i in ids}

    def to_bytes(self) -> bytes:
        return self._model


class ByteTokenizer:
    """UTF-8 bytes: needs no training, knows every text and loses nothing."""

    suffix = ".json"
    size = len(SPECIALS) + 256
    lossless = True

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[len(SPECIALS) + byte for byte in text.encode("utf-8", "replace")] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i - len(SPECIALS) for i in without_specials(ids)).decode("utf-8", "replace")

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [SPECIALS[i] if i < len(SPECIALS) else _byte_name(i - len(SPECIALS)) for i in ids]

    def to_bytes(self) -> bytes:
        return b'{"kind": "bytes"}'


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of source and target, which may be the same object."""

    src: Tokenizer
    tgt: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both sides have the same ids, so that they can share embeddings"""
        return self.src is self.tgt or all(getattr(side, "shares_ids", False) for side in (self.src, self.tgt))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both tokenizers' files, in hexadecimal."""
        digest = hashlib.sha256(self.src.to_bytes())
        digest.update(self.tgt.to_bytes())
        return digest.hexdigest()

    def files(self) -> dict[str, bytes]:
        """Return the content of the tokenizers' files by name."""
        sides = {"joint": self.src} if self.src is self.tgt else {"src": self.src, "tgt": self.tgt}
        return {f"{name}{tokenizer.suffix}": tokenizer.to_bytes() for name, tokenizer in sides.items()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], where: Path) -> "TokenizerPair":
        """Make the tokenizers from what `files` returned; `where` is named in errors."""
        from regard.text.tokenizer_file import read_tokenizer  # which knows all kinds of tokenizers

        try:
            loaded = {PurePath(name).stem: read_tokenizer(name, content) for name, content in files.items()}
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        if joint := loaded.get("joint"):
            return cls(joint, joint)
        if "src" not in loaded or "tgt" not in loaded:
            raise UserError(f"{where}: no tokenizer found (joint.spm, or src.spm and tgt.spm)")
        return cls(loaded["src"], loaded["tgt"])

    def save(self, folder: Path) -> None:
        """Write the files and delete those of another pair. Files that are right already are never missing."""
        folder.mkdir(parents=True, exist_ok=True)
        files = self.files()
        for name, content in files.items():
            write_atomically(folder / name, content)
        for stale in _tokenizer_files(folder):
            if stale.name not in files:
                stale.unlink()

    @classmethod
    def load(cls, folder: Path) -> "TokenizerPair":
        return cls.from_files({path.name: read_regular(path) for path in _tokenizer_files(folder)}, folder)


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer on texts; `bytes` needs no training and does not read them."""
    if config.lossless:
        _check_lossless(config)
    if config.kind == "bytes":
        if config.symbols:
            raise UserError("tokenizer.kind=bytes has no symbols, which tags need; set tokenizer.kind=bpe or char")
        return ByteTokenizer()
    if config.kind in ("char", "word"):
        return ListTokenizer.train(texts, config.kind, config.vocab_size, config.symbols)
    return SentencePieceTokenizer.train(texts, config)


def train_tokenizers(sources: Sequence[str], targets: Sequence[str], config: TokenizerConfig) -> TokenizerPair:
    """Train the tokenizers of both sides, or one for both."""
    if config.joint:
        joint = train_tokenizer([*sources, *targets], config)
        return TokenizerPair(joint, joint)
    return TokenizerPair(train_tokenizer(sources, config), train_tokenizer(targets, config))


def _tokenizer_files(folder: Path) -> list[Path]:
    return [path for pattern in ("*.spm", "*.json") for path in sorted(folder.glob(pattern)) if path.stem in _STEMS]


def _byte_name(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>"


def _check_lossless(config: TokenizerConfig) -> None:
    if config.kind == "word":
        raise UserError(
            "tokenizer.lossless: kind word loses white space; set tokenizer.kind to bpe, unigram, char or bytes"
        )
    if config.kind in ("bpe", "unigram") and not config.byte_fallback:
        raise UserError("tokenizer.lossless needs tokenizer.byte_fallback: true")
    if config.symbols:
        raise UserError("tokenizer.lossless: there are no symbols then; leave tokenizer.symbols empty")
    if option := config.resampling:
        raise UserError(f"tokenizer.{option} assumes single spaces between words; set it to 0 with tokenizer.lossless")


def _count_words(texts: Iterable[str]) -> Iterator[str]:
    """Yield each word and how often it occurs, separated by a tab: BPE learns the same from them, much faster."""
    counts: Counter[str] = Counter()
    short = (text for text in texts if len(text.encode()) <= _MAX_LINE)
    while block := list(islice(short, 1000)):
        counts.update(" ".join(block).replace("\t", " ").split(" "))
    return (f"{word}\t{count}" for word, count in counts.items() if word)


def _training_failure(message: str, config: TokenizerConfig) -> str:
    if too_small := re.search(r"required_chars\. \d+ vs (\d+)", message):
        parts = "special tokens, bytes and the characters" if config.byte_fallback else "special tokens and characters"
        return (
            f"tokenizer.vocab_size={config.vocab_size} is too small: {parts} of this text are {too_small[1]} pieces; "
            f"set it to {too_small[1]} or more"
        )
    if "sentences_.empty()" in message or "required_chars_.empty()" in message:
        return f"tokenizer: there is no text to train on; lines over {_MAX_LINE:,} bytes are not used"
    return f"tokenizer: SentencePiece could not be trained on this text ({message.strip()[-160:]})"
