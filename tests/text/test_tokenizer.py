from pathlib import Path

import pytest
import sentencepiece

from regard.errors import UserError
from regard.text import tokenizer as tokenizer_module
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizer, TokenizerConfig, TokenizerPair, train_tokenizer
from regard.text.tokenizer_file import read_tokenizer
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
def test_decoding_restores_the_text(kind: str) -> None:
    tokenizer = trained(kind)
    for text, ids in zip(TEXT, tokenizer.encode(TEXT), strict=True):
        assert tokenizer.decode(ids) == text
        assert all(len(SPECIALS) <= i < tokenizer.size for i in ids)


@pytest.mark.parametrize("kind", KINDS)
def test_specials_have_fixed_ids_and_never_come_from_text(kind: str) -> None:
    tokenizer = trained(kind)
    unknown = "▁<unk>" if kind == "word" else "<unk>"  # with words, the unknown token is a word
    assert tokenizer.tokens(range(len(SPECIALS))) == ["<pad>", unknown, *SPECIALS[2:]]
    [ids] = tokenizer.encode(["the cat"])
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD, SEP, MASK]) == "the cat"
    [ids] = tokenizer.encode(["<s> </s> <pad>"])
    assert not set(ids) & {PAD, BOS, EOS, SEP, MASK}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_byte_fallback_loses_nothing(kind: str) -> None:
    tokenizer = trained(kind)
    for text in ("naïve 日本語 🙂", "Ω", "a\u200db"):
        [ids] = tokenizer.encode([text])
        assert UNK not in ids
        assert tokenizer.decode(ids) == text


def test_without_byte_fallback_an_unknown_character_is_unk() -> None:
    [ids] = trained("bpe", byte_fallback=False, vocab_size=60).encode(["日"])
    assert UNK in ids


@pytest.mark.parametrize("kind", ["char", "word"])
def test_unknown_symbols_are_decoded_as_unk(kind: str) -> None:
    tokenizer = trained(kind)
    [ids] = tokenizer.encode(["日"])
    assert ids == [UNK] and tokenizer.decode(ids) == "<unk>"


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic(kind: str) -> None:
    assert trained(kind).to_bytes() == trained(kind).to_bytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_pair_loads_unchanged(kind: str, joint: bool, tmp_path: Path) -> None:
    src = trained(kind)
    pair = TokenizerPair(src, src if joint else trained(kind, vocab_size=300))
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint == joint
    assert loaded.fingerprint == pair.fingerprint
    assert loaded.src.encode(TEXT) == src.encode(TEXT)


@pytest.mark.parametrize("options", [{}, {"byte_fallback": False}, {"lossless": True}], ids=str)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_error_for_a_vocabulary_that_is_too_small_names_our_option_and_a_number_that_works(
    kind: str, options: dict[str, object]
) -> None:
    with pytest.raises(UserError, match=r"^tokenizer.vocab_size=20 is too small: .* set it to \d+ or more$") as error:
        trained(kind, vocab_size=20, **options)
    smallest = int(str(error.value).split()[-3])
    assert trained(kind, vocab_size=smallest, **options).size == smallest
    with pytest.raises(UserError):
        trained(kind, vocab_size=smallest - 1, **options)


@pytest.mark.parametrize("kind", [*KINDS, "bytes"])
def test_a_vocabulary_that_is_larger_than_the_text_needs_is_no_error(kind: str) -> None:
    assert trained(kind, vocab_size=1_000_000).size < 400


def test_bpe_learns_the_same_from_words_as_from_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, train = [*TEXT, "two  spaces", "a\tb", " ▁x\u00a0y"], sentencepiece.SentencePieceTrainer.train
    by_word = train_tokenizer(texts, TokenizerConfig(vocab_size=320))
    monkeypatch.setattr(tokenizer_module, "_count_words", iter)
    monkeypatch.setattr(
        sentencepiece.SentencePieceTrainer, "train", lambda **options: train(**{**options, "input_format": "text"})
    )
    by_text = train_tokenizer([text.replace("\t", " ") for text in texts], TokenizerConfig(vocab_size=320))
    assert isinstance(by_word, SentencePieceTokenizer) and isinstance(by_text, SentencePieceTokenizer)
    assert by_word.piece_scores() == by_text.piece_scores()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_text_without_words_is_reported_as_such(kind: str) -> None:
    for texts in ([], [""], ["x" * 200_000]):
        with pytest.raises(UserError, match="no text to train on"):
            train_tokenizer(texts, TokenizerConfig.parse({"kind": kind}))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"kind": "x", "symbols": []}', b"[" * 100_000])
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        ListTokenizer.from_bytes(content)
    (tmp_path / "joint.spm").write_bytes(content)
    with pytest.raises(UserError):
        TokenizerPair.load(tmp_path)


def test_a_folder_without_a_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer"):
        TokenizerPair.load(tmp_path)


def test_saving_removes_the_files_of_an_earlier_attempt(tmp_path: Path) -> None:
    for kind in ("bpe", "char"):
        tokenizer = trained(kind)
        TokenizerPair(tokenizer, tokenizer).save(tmp_path)
        assert TokenizerPair.load(tmp_path).src.to_bytes() == tokenizer.to_bytes()
    TokenizerPair(trained("word"), trained("word")).save(tmp_path)
    assert not TokenizerPair.load(tmp_path).joint


@pytest.mark.parametrize("kind", KINDS)
def test_symbols_are_one_token_each_as_whole_words_only(kind: str) -> None:
    symbols = (">>fra<<", "<bt>")
    tokenizer = trained(kind, symbols=symbols)
    ids = {symbol: tokenizer.encode([symbol])[0] for symbol in symbols}
    assert all(len(of_symbol) == 1 for of_symbol in ids.values())
    [plain], [tagged] = tokenizer.encode(["the cat"]), tokenizer.encode([">>fra<< <bt> the cat"])
    space = tokenizer.encode([" "])[0] if kind == "char" else []  # a space is a character
    assert tagged == [*ids[">>fra<<"], *space, *ids["<bt>"], *space, *plain]
    assert tokenizer.decode(tagged) == ">>fra<< <bt> the cat"
    assert ids["<bt>"][0] not in tokenizer.encode(["a<bt>"])[0]
    assert read_tokenizer(f"joint{tokenizer.suffix}", tokenizer.to_bytes()).encode([">>fra<< a"]) == tokenizer.encode(
        [">>fra<< a"]
    )


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_symbols_do_not_change_how_other_words_are_segmented(kind: str) -> None:
    """They are not learned from, even if the text has them."""
    plain, with_symbols = (
        train_tokenizer(texts, TokenizerConfig.parse({"kind": kind, "vocab_size": size, "symbols": symbols}))
        for texts, size, symbols in ((TEXT, 320, ()), ([f"<bt> {text}" for text in TEXT], 321, ("<bt>",)))
    )
    for text in TEXT:
        pieces = plain.tokens(plain.encode([text])[0])
        assert with_symbols.tokens(with_symbols.encode([f"<bt> {text}"])[0]) == ["▁<bt>", *pieces]


def test_words_of_several_parts_and_bytes_have_no_symbols() -> None:
    for symbols in (["a b"], ["<s>"], ["x", "x"], [""]):
        with pytest.raises(UserError, match="tokenizer"):
            TokenizerConfig.parse({"symbols": symbols}, where="tokenizer")
    with pytest.raises(UserError, match="kind=bytes has no symbols"):
        train_tokenizer(TEXT, TokenizerConfig(kind="bytes", symbols=("<bt>",)))
    with pytest.raises(UserError, match="no symbols"):
        train_tokenizer(TEXT, TokenizerConfig(lossless=True, symbols=("<bt>",)))
