"""Our kinds of tokenizers in the terms of the `tokenizers` library."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from regard.text.byte_pair_tokenizer import BYTE_CHARACTERS, BytePairTokenizer
from regard.text.clean import WHITE_SPACE
from regard.text.list_tokenizer import ListTokenizer
from regard.text.pretokenizers import KNOWN_PATTERNS
from regard.text.tokenizer import ByteTokenizer, SentencePieceTokenizer, Tokenizer
from regard.text.vocab import SPECIALS, UNK, WORD_START

UNKNOWN = "\ufdd1"
"""A character that occurs in no text and no vocabulary"""
_NEVER = -1e6
"""Score of what a unigram model must not find in a text: special tokens, bytes and the target's pieces"""
_ALL = 1_000_000
_SPACES = Regex(f"[{WHITE_SPACE}]+")
_SINGLE_SPACES = [normalizers.Replace(_SPACES, " "), normalizers.Strip()]


class TokenizerForm(Protocol):
    """A tokenizer, in steps of the library. Arguments `own` are its tokens, perhaps with special ones renamed."""

    shows_unknown: ClassVar[bool]
    """Whether decoding shows the unknown token"""

    @property
    def tokens(self) -> list[str]:
        """The string of each id"""
        ...

    def model(self, own: Sequence[str], others: Sequence[str]) -> Any:
        """Return what splits a text into the tokens `own`; their ids follow those of `others`."""
        ...

    def normalizers(self, own: Sequence[str], cleaned: bool) -> list[Any]:
        """Return what changes a text first, which `cleaned` says has single spaces already."""
        ...

    def pre_tokenizer(self, own: Sequence[str]) -> Any:
        """Return what splits a text before the model does; None: nothing"""
        ...

    def decoders(self) -> list[Any]:
        """Return what joins tokens to a text."""
        ...

    def added(self, cleaned: bool) -> list[AddedToken]:
        """Return tokens that are not special but found before everything else."""
        ...


def form_of(tokenizer: Tokenizer) -> TokenizerForm | None:
    """Return the form of a tokenizer; None: it has none."""
    match tokenizer:
        case SentencePieceTokenizer():
            return _Pieces(tokenizer)
        case ListTokenizer(kind="word"):
            return _Words(tokenizer)
        case ListTokenizer(kind="char"):
            return _Characters(tokenizer)
        case ByteTokenizer():
            return _Bytes()
        case BytePairTokenizer():
            return _BytePairs(tokenizer)
    return None


def clean_steps() -> list[Any]:
    """Return the steps of `clean`, except for characters that UTF-8 cannot encode, which the library refuses."""
    return [normalizers.Replace(Regex(r"\A\ufeff"), ""), *_SINGLE_SPACES]


class _Pieces:
    """SentencePiece: BPE or unigram"""

    shows_unknown: ClassVar[bool] = False

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self._tokenizer = tokenizer
        self._lossless, self._is_bpe = tokenizer.lossless, tokenizer.is_bpe
        self._known = tokenizer.piece_scores().keys()

    @property
    def tokens(self) -> list[str]:
        pieces = self._tokenizer.tokens(range(self._tokenizer.size))
        for i in self._tokenizer.symbol_ids:  # an added token is normalised, which puts "▁" in front of it
            pieces[i] = pieces[i].removeprefix(WORD_START)
        # A lossless model keeps the character "▁", which must not become a space.
        return [piece.replace(WORD_START, " ") for piece in pieces] if self._lossless else pieces

    @cached_property
    def _has_bytes(self) -> bool:
        return any(self._tokenizer.is_byte(i) for i in range(self._tokenizer.size))

    def model(self, own: Sequence[str], others: Sequence[str]) -> Any:
        pieces = self._tokenizer.piece_scores().values()
        scores = {own[i]: score for i, score in pieces if not self._tokenizer.is_byte(i)}
        ids = {piece: i for i, piece in enumerate([*others, *own])}
        if not self._is_bpe:
            ranked = [(piece, scores.get(piece, _NEVER)) for piece in ids]
            return models.Unigram(ranked, len(others) + UNK, self._has_bytes)
        return models.BPE(ids, _merges(scores, ids), unk_token=own[UNK], byte_fallback=self._has_bytes, fuse_unk=True)

    def normalizers(self, own: Sequence[str], cleaned: bool) -> list[Any]:
        steps: list[Any] = []
        if not self._lossless:
            if not cleaned:
                steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex(r"\A | \z"), "")]
            steps += [normalizers.Prepend(WORD_START), normalizers.Replace(" ", WORD_START)]
            steps.append(normalizers.Replace(Regex(rf"{WORD_START}+\z"), ""))
        if not self._is_bpe and not self._has_bytes and "<" not in self._known:
            steps.append(normalizers.Replace("<", UNKNOWN))  # so that the text "</s>" is not taken for the token
        return steps

    def pre_tokenizer(self, own: Sequence[str]) -> Any:
        """Split before a text like "</s>" where a unigram model could take it for the token.

        A model that knows all its characters prefers its own pieces, because the score of the token is lower. That of
        an unknown character is lower still.
        """
        tokens = {*SPECIALS, *own[: len(SPECIALS)], *(["<0x123456789ABCDEF>"] if self._has_bytes else [])}
        if self._is_bpe or set("".join(tokens)) <= self._known:
            return None
        names = "|".join([*(token[1:-1] for token in sorted(tokens)), "0x[0-9A-F][0-9A-F]"])
        return pre_tokenizers.Split(Regex(f"<(?=(?:{names})>)"), "isolated")

    def decoders(self) -> list[Any]:
        bytes_and_all = [decoders.ByteFallback(), decoders.Fuse()]
        if self._lossless:
            return bytes_and_all
        return [decoders.Replace(WORD_START, " "), *bytes_and_all, decoders.Strip(" ", _ALL, 0)]

    def added(self, cleaned: bool) -> list[AddedToken]:
        """Return the symbols, and the line break, which lossless models never join with other characters."""
        tokens = self.tokens
        symbols = [AddedToken(tokens[i], normalized=True) for i in sorted(self._tokenizer.symbol_ids)]
        return [*symbols, *([AddedToken("\n", normalized=False)] if self._lossless and not cleaned else [])]


class _Symbols:
    """A list of symbols; others are unknown"""

    shows_unknown: ClassVar[bool] = True

    def __init__(self, tokenizer: ListTokenizer) -> None:
        self.tokens = tokenizer.symbols

    def model(self, own: Sequence[str], others: Sequence[str]) -> Any:
        return models.WordLevel({symbol: i for i, symbol in enumerate([*others, *own])}, unk_token=own[UNK])

    def added(self, cleaned: bool) -> list[AddedToken]:
        return []


class _Characters(_Symbols):
    """Single characters"""

    def normalizers(self, own: Sequence[str], cleaned: bool) -> list[Any]:
        return []

    def pre_tokenizer(self, own: Sequence[str]) -> Any:
        return pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")

    def decoders(self) -> list[Any]:
        return [decoders.Fuse()]

    def added(self, cleaned: bool) -> list[AddedToken]:
        """Return the words among the characters, such as tags."""
        words = [token for token in self.tokens[len(SPECIALS) :] if len(token) > 1]
        return [AddedToken(word, normalized=True, single_word=True) for word in words]


class _Words(_Symbols):
    """Words between spaces"""

    def normalizers(self, own: Sequence[str], cleaned: bool) -> list[Any]:
        unknown = normalizers.Replace(Regex(f"(?<![^ ])({'|'.join(SPECIALS)})(?![^ ])"), own[UNK])
        return [unknown] if cleaned else [*_SINGLE_SPACES, unknown]

    def pre_tokenizer(self, own: Sequence[str]) -> Any:
        return pre_tokenizers.Split(" ", "removed")

    def decoders(self) -> list[Any]:
        return [decoders.WordPiece(prefix=UNKNOWN, cleanup=False)]  # a space before every token but the first


class _Bytes:
    """Bytes, each written as one printable character"""

    shows_unknown: ClassVar[bool] = False

    @property
    def tokens(self) -> list[str]:
        return [*SPECIALS, *BYTE_CHARACTERS]

    def model(self, own: Sequence[str], others: Sequence[str]) -> Any:
        return models.BPE({token: i for i, token in enumerate([*others, *own])}, [], unk_token=own[UNK])

    def normalizers(self, own: Sequence[str], cleaned: bool) -> list[Any]:
        return []

    def pre_tokenizer(self, own: Sequence[str]) -> Any:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def decoders(self) -> list[Any]:
        return [decoders.ByteLevel()]

    def added(self, cleaned: bool) -> list[AddedToken]:
        return []


class _BytePairs:
    """BPE of imported language models; `TokenizerJson` reads what is written here"""

    shows_unknown: ClassVar[bool] = False

    def __init__(self, tokenizer: BytePairTokenizer) -> None:
        self.tokens, self._merges, self._options = tokenizer.symbols, tokenizer.merges, tokenizer.options

    def model(self, own: Sequence[str], others: Sequence[str]) -> Any:
        return models.BPE(
            {token: i for i, token in enumerate([*others, *own])},
            list(self._merges),
            unk_token=own[UNK],
            fuse_unk=True,
            byte_fallback=not self._options.over_bytes,
            ignore_merges=self._options.whole_words,
        )

    def normalizers(self, own: Sequence[str], cleaned: bool) -> list[Any]:
        options = self._options
        if options.over_bytes:
            return [normalizers.NFC()] if options.nfc else []
        spaces = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")] if options.single_spaces else []
        if options.prefix == "first":
            return spaces
        prefix = [normalizers.Prepend(WORD_START)] if options.prefix else []
        return [*spaces, *prefix, normalizers.Replace(" ", WORD_START)]

    def pre_tokenizer(self, own: Sequence[str]) -> Any:
        if not self._options.over_bytes:
            first = self._options.prefix == "first"
            return pre_tokenizers.Metaspace(WORD_START, "first", split=False) if first else None
        patterns = {name: pattern for pattern, name in KNOWN_PATTERNS.items()}
        rules = [
            pre_tokenizers.Digits(individual_digits=True)
            if rule == "digits"
            else pre_tokenizers.Split(Regex(patterns[rule]), "isolated")
            for rule in self._options.rules
        ]
        return pre_tokenizers.Sequence([*rules, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    def decoders(self) -> list[Any]:
        if self._options.over_bytes:
            return [decoders.ByteLevel()]
        strip = [decoders.Strip(" ", 1, 0)] if self._options.prefix else []
        return [decoders.Replace(WORD_START, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]

    def added(self, cleaned: bool) -> list[AddedToken]:
        return [AddedToken(token, normalized=False) for token in self._options.added]


def _merges(scores: Mapping[str, float], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return all merges in the order in which SentencePiece makes them: by the score of the merged piece."""
    splits = [(piece[:k], piece[k:], score) for piece, score in scores.items() for k in range(1, len(piece))]
    merges = [(-score, ids[a], ids[b], a, b) for a, b, score in splits if a in scores and b in scores]
    return [(a, b) for *_, a, b in sorted(merges)]
