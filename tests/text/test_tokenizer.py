import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.bpe_dropout import BpeDropout
from regard.text.tokenizer import (
    ListTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
    train_tokenizer,
)
from regard.text.vocab import BOS, EOS, MASK, PAD, SEP, SPECIALS, UNK

TEXT = [
    "the green witch arrived",
    "la sorcière verte est arrivée",
    "the cat sees the witch",
    "le chat voit",
] * 20
KINDS = ["bpe", "unigram", "char", "word"]


def trained(kind: str, **options: object) -> Tokenizer:
    return train_tokenizer(TEXT, TokenizerConfig.parse({"kind": kind, "vocab_size": 320, **options}))


@pytest.mark.parametrize("kind", KINDS)
def test_decode_of_encode_is_the_text(kind: str) -> None:
    tokenizer = trained(kind)
    for text, ids in zip(TEXT, tokenizer.encode(TEXT), strict=True):
        assert tokenizer.decode(ids) == text
        assert all(len(SPECIALS) <= i < tokenizer.size for i in ids)


@pytest.mark.parametrize("kind", KINDS)
def test_specials_stand_at_their_ids_and_are_never_text(kind: str) -> None:
    tokenizer = trained(kind)
    unknown = "▁<unk>" if kind == "word" else "<unk>"  # which is a word of its own there
    assert tokenizer.tokens(range(len(SPECIALS))) == ["<pad>", unknown, *SPECIALS[2:]]
    [ids] = tokenizer.encode(["the cat"])
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD, SEP, MASK]) == "the cat"
    [spelt] = tokenizer.encode(["<s> </s> <pad>"])
    assert not set(spelt) & {PAD, BOS, EOS, SEP, MASK}, "text cannot spell a special"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_byte_fallback_loses_nothing(kind: str) -> None:
    tokenizer = trained(kind)
    for text in ("naïve 日本語 🙂", "Ω", "a\u200db"):
        [ids] = tokenizer.encode([text])
        assert UNK not in ids
        assert tokenizer.decode(ids) == text


def test_without_byte_fallback_the_unknown_is_unknown() -> None:
    [ids] = trained("bpe", byte_fallback=False, vocab_size=60).encode(["日"])
    assert UNK in ids


@pytest.mark.parametrize("kind", ["char", "word"])
def test_unknown_symbols_show_as_unknown(kind: str) -> None:
    tokenizer = trained(kind)
    [ids] = tokenizer.encode(["日"])
    assert ids == [UNK] and tokenizer.decode(ids) == "<unk>"


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic(kind: str) -> None:
    assert trained(kind).to_bytes() == trained(kind).to_bytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joint", [True, False])
def test_saved_is_loaded(kind: str, joint: bool, tmp_path: Path) -> None:
    src = trained(kind)
    pair = TokenizerPair(src, src if joint else trained(kind, vocab_size=300))
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint == joint
    assert loaded.fingerprint == pair.fingerprint
    assert loaded.src.encode(TEXT) == src.encode(TEXT)


def test_bpe_dropout_without_dropout_is_sentencepiece() -> None:
    tokenizer = trained("bpe")
    assert isinstance(tokenizer, SentencePieceTokenizer)
    plain = BpeDropout(tokenizer, 0.0)
    texts = [*TEXT[:4], "the witchcraft 日本 verte", "🙂", "arrivée-arrived"]
    ids = tokenizer.encode(texts)
    assert plain(ids, seed=3) == ids


def test_bpe_dropout_is_a_pure_function_that_keeps_the_text() -> None:
    tokenizer = trained("bpe")
    assert isinstance(tokenizer, SentencePieceTokenizer)
    ids = tokenizer.encode(TEXT)
    once = BpeDropout(tokenizer, 0.5)(ids, seed=7)
    assert BpeDropout(tokenizer, 0.5)(ids, seed=7) == once
    assert once != ids and BpeDropout(tokenizer, 0.5)(ids, seed=8) != once
    assert [tokenizer.decode(row) for row in once] == TEXT
    characters = BpeDropout(tokenizer, 1.0)(ids[:1], seed=1)
    assert tokenizer.tokens(characters[0]) == list("▁the▁green▁witch▁arrived")


def test_bpe_dropout_is_the_same_in_another_process() -> None:
    code = (
        "from regard.text.tokenizer import *; from regard.text.bpe_dropout import BpeDropout\n"
        "t = train_tokenizer(['the green witch arrived'] * 20, TokenizerConfig(vocab_size=290))\n"
        "print(BpeDropout(t, 0.5)(t.encode(['the green witch arrived'] * 9), 5))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout != ""


def test_a_vocabulary_too_small_for_the_text_is_refused_with_the_remedy() -> None:
    with pytest.raises(UserError, match="vocab_size"):
        trained("bpe", vocab_size=20)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"kind": "x", "symbols": []}', b"[" * 100_000])
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        ListTokenizer.from_bytes(content)
    (tmp_path / "joint.spm").write_bytes(content)
    with pytest.raises(UserError):
        TokenizerPair.load(tmp_path)


def test_no_tokenizer_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer"):
        TokenizerPair.load(tmp_path)


def test_what_an_earlier_attempt_left_is_not_loaded(tmp_path: Path) -> None:
    for kind in ("bpe", "char"):
        tokenizer = trained(kind)
        TokenizerPair(tokenizer, tokenizer).save(tmp_path)
        assert TokenizerPair.load(tmp_path).src.to_bytes() == tokenizer.to_bytes()
    TokenizerPair(trained("word"), trained("word")).save(tmp_path)
    assert not TokenizerPair.load(tmp_path).joint
