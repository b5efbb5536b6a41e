"""The tokenizer of a model as files that `AutoTokenizer` of transformers loads."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as HfTokenizer

from regard.convert.hf_marian_tokenizer import is_marian, write_marian_tokenizer
from regard.text.clean import WHITE_SPACE
from regard.text.tokenizer import ByteTokenizer, ListTokenizer, SentencePieceTokenizer, Tokenizer, TokenizerPair
from regard.text.vocab import EOS, SPECIALS, UNK, WORD_START

_TARGET = "\ufdd0"
"""First character of the target's tokens where the vocabularies are separate; no text contains it"""
_UNKNOWN = "\ufdd1"
"""A character that no model knows"""
_SPACES = f"[{WHITE_SPACE}]+"
_ALL = 1_000_000
_NEVER = -1e6
"""Score of what a unigram model must not find in a text: special tokens, bytes and the target's pieces"""


def first_source_id(tokenizers: TokenizerPair) -> int:
    """Return the id of the source's first token. Tokens of a separate source vocabulary follow those of the target.

    Only MarianTokenizer of transformers can hold two vocabularies.
    """
    return 0 if tokenizers.joint or is_marian(tokenizers) else tokenizers.tgt.size


def tokenizer_problem(tokenizers: TokenizerPair) -> str | None:
    """Return why the tokenizers cannot be written, or None."""
    if is_marian(tokenizers):
        return None
    known = (SentencePieceTokenizer, ListTokenizer, ByteTokenizer)
    if not isinstance(tokenizers.src, known) or not isinstance(tokenizers.tgt, known):
        return f"its tokenizer ({type(tokenizers.src).__name__}) has no form there"
    return None


def write_tokenizer(
    tokenizers: TokenizerPair, template: str, folder: Path, *, cleaned: bool, max_len: int, pad_left: bool
) -> None:
    """Write tokenizer.json and tokenizer_config.json, or the files of an imported Marian tokenizer.

    `template` says which special tokens surround the text "$A"; `cleaned`: whether the text is cleaned first.
    """
    if is_marian(tokenizers):
        write_marian_tokenizer(tokenizers, folder, max_len)
        return
    make_tokenizer(tokenizers, template, cleaned).save(str(folder / "tokenizer.json"))
    names = ("pad_token", "unk_token", "bos_token", "eos_token", "sep_token", "mask_token")
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name: token for name, token in zip(names, SPECIALS, strict=True) if token in _hidden(tokenizers.tgt)},
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a text that contains "</s>" contains these characters, not the end
        "padding_side": "left" if pad_left else "right",
        "model_max_length": max_len,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def make_tokenizer(tokenizers: TokenizerPair, template: str, cleaned: bool) -> HfTokenizer:
    """Return the tokenizer of the `tokenizers` library that encodes sources and decodes targets."""
    src, tgt, first = tokenizers.src, tokenizers.tgt, first_source_id(tokenizers)
    own = _pieces(src)
    others = [] if tokenizers.joint else [*SPECIALS, *(_TARGET + piece for piece in _pieces(tgt)[len(SPECIALS) :])]
    if others:
        own[: len(SPECIALS)] = [_source_special(i) for i in range(len(SPECIALS))]
    made = HfTokenizer(_model(src, own, others))
    made.normalizer = normalizers.Sequence(_normalizers(src, own, cleaned))
    if split := _pre_tokenizer(src, own):
        made.pre_tokenizer = split
    made.decoder = _decoder(tgt, bool(others))
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _hidden(tgt)])
    if others:
        made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in own[: len(SPECIALS)]])
        template = template.replace(SPECIALS[EOS], own[EOS])
    if isinstance(src, SentencePieceTokenizer) and src.lossless and not cleaned:
        made.add_tokens([AddedToken("\n", normalized=False)])
    ids = {token: made.token_to_id(token) for token in template.split() if token != "$A"}
    made.post_processor = processors.TemplateProcessing(single=template, special_tokens=list(ids.items()))
    assert made.get_vocab_size() == first + src.size
    return made


def _hidden(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the special tokens that are left out when text is decoded."""
    return tuple(t for i, t in enumerate(SPECIALS) if i != UNK or not isinstance(tokenizer, ListTokenizer))


def _source_special(i: int) -> str:
    return f"<source-{SPECIALS[i].strip('<>')}>"


def _pieces(tokenizer: Tokenizer) -> list[str]:
    """Return the string of each id, in the form that the library needs."""
    ids = range(tokenizer.size)
    if isinstance(tokenizer, ByteTokenizer):
        alphabet = _byte_alphabet()
        return [*SPECIALS, *(alphabet[byte] for byte in range(256))]
    if isinstance(tokenizer, ListTokenizer):
        return tokenizer.symbols
    pieces = tokenizer.tokens(ids)
    return [piece.replace(WORD_START, " ") for piece in pieces] if tokenizer.lossless else pieces


def _byte_alphabet() -> dict[int, str]:
    """Return the character by which the library's ByteLevel writes each byte, as GPT-2 does."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def _model(tokenizer: Tokenizer, own: Sequence[str], others: Sequence[str]) -> Any:
    """Return the model that splits text into the pieces `own`; their ids follow those of `others`."""
    ids = {piece: i for i, piece in enumerate([*others, *own])}
    if isinstance(tokenizer, ListTokenizer):
        return models.WordLevel(ids, unk_token=own[UNK])
    if isinstance(tokenizer, ByteTokenizer):
        return models.BPE(ids, [], unk_token=own[UNK])
    assert isinstance(tokenizer, SentencePieceTokenizer)
    scores = {own[i]: score for i, score in tokenizer.piece_scores().values() if not tokenizer.is_byte(i)}
    has_bytes = _has_bytes(tokenizer)
    if tokenizer.is_bpe:
        return models.BPE(ids, _merges(scores, ids), unk_token=own[UNK], byte_fallback=has_bytes, fuse_unk=True)
    return models.Unigram([(piece, scores.get(piece, _NEVER)) for piece in ids], len(others) + UNK, has_bytes)


def _merges(scores: Mapping[str, float], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return all merges in the order in which SentencePiece makes them: by the score of the merged piece."""
    splits = [(piece[:k], piece[k:], score) for piece, score in scores.items() for k in range(1, len(piece))]
    merges = [(-score, ids[a], ids[b], a, b) for a, b, score in splits if a in scores and b in scores]
    return [(a, b) for *_, a, b in sorted(merges)]


def _normalizers(tokenizer: Tokenizer, own: Sequence[str], cleaned: bool) -> list[Any]:
    by_word = isinstance(tokenizer, ListTokenizer) and tokenizer.kind == "word"
    steps: list[Any] = [normalizers.Replace(Regex(r"\A\ufeff"), "")] if cleaned else []
    if cleaned or by_word:
        steps += [normalizers.Replace(Regex(_SPACES), " "), normalizers.Strip()]
    if by_word:  # the word "</s>" is unknown
        steps.append(normalizers.Replace(Regex(f"(?<![^ ])({'|'.join(SPECIALS)})(?![^ ])"), own[UNK]))
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return steps
    if not tokenizer.lossless:
        if not cleaned:
            steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex(r"\A | \z"), "")]
        steps += [normalizers.Prepend(WORD_START), normalizers.Replace(" ", WORD_START)]
        steps.append(normalizers.Replace(Regex(rf"{WORD_START}+\z"), ""))
    if not tokenizer.is_bpe and not _has_bytes(tokenizer) and "<" not in tokenizer.piece_scores():
        steps.append(normalizers.Replace("<", _UNKNOWN))
    return steps


def _pre_tokenizer(tokenizer: Tokenizer, own: Sequence[str]) -> Any:
    if isinstance(tokenizer, ByteTokenizer):
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if isinstance(tokenizer, ListTokenizer):
        return pre_tokenizers.Split(Regex(" " if tokenizer.kind == "word" else r"[\s\S]"), _behaviour(tokenizer))
    assert isinstance(tokenizer, SentencePieceTokenizer)
    if not tokenizer.is_bpe and (place := _special_text(tokenizer, own)):
        return pre_tokenizers.Split(place, "isolated")
    return None


def _special_text(tokenizer: SentencePieceTokenizer, own: Sequence[str]) -> Any:
    """Return where a text like "</s>" begins, which a unigram model could take for the token; None: it never does.

    A model that knows all characters prefers its own pieces, because the score of the token is lower. That of an
    unknown character is lower still.
    """
    tokens = {*SPECIALS, *own[: len(SPECIALS)], *(["<0x123456789ABCDEF>"] if _has_bytes(tokenizer) else [])}
    if set("".join(tokens)) <= tokenizer.piece_scores().keys():
        return None
    names = "|".join([*(token[1:-1] for token in sorted(tokens)), "0x[0-9A-F][0-9A-F]"])
    return Regex(f"<(?=(?:{names})>)")


def _has_bytes(tokenizer: SentencePieceTokenizer) -> bool:
    return any(tokenizer.is_byte(i) for i in range(tokenizer.size))


def _behaviour(tokenizer: ListTokenizer) -> str:
    return "removed" if tokenizer.kind == "word" else "isolated"


def _decoder(tokenizer: Tokenizer, separate: bool) -> Any:
    """Return what joins tokens to a text."""
    steps: list[Any] = [decoders.Replace(_TARGET, "")] if separate else []
    if isinstance(tokenizer, ByteTokenizer):
        steps.append(decoders.ByteLevel())
    elif isinstance(tokenizer, SentencePieceTokenizer):
        if not tokenizer.lossless:
            steps.append(decoders.Replace(WORD_START, " "))
        steps += [decoders.ByteFallback(), decoders.Fuse()]
        if not tokenizer.lossless:
            steps.append(decoders.Strip(" ", _ALL, 0))
    elif isinstance(tokenizer, ListTokenizer) and tokenizer.kind == "char":
        steps.append(decoders.Fuse())
    else:
        steps.append(decoders.WordPiece(prefix=_UNKNOWN, cleanup=False))  # a space between tokens
    return decoders.Sequence(steps)
