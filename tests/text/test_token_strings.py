"""The text that single tokens add."""

import pytest

from regard.text.list_tokenizer import ListTokenizer
from regard.text.token_strings import token_string
from regard.text.tokenizer import ByteTokenizer, Tokenizer, TokenizerConfig, train_tokenizer
from regard.text.vocab import EOS, UNK

TEXT = "a cat sat. a dog, a cat. cats sat"
BPE = train_tokenizer([TEXT] * 5, TokenizerConfig(vocab_size=300))
LOSSLESS = train_tokenizer([TEXT] * 5, TokenizerConfig(vocab_size=300, lossless=True))
CHARACTERS = ListTokenizer("char", sorted(set(TEXT)))
WORDS = ListTokenizer("word", sorted(set(TEXT.split())))


@pytest.mark.parametrize("tokenizer", [BPE, LOSSLESS, CHARACTERS, WORDS, ByteTokenizer()])
def test_the_strings_of_all_tokens_are_the_text(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode([TEXT])
    assert "".join(token_string(tokenizer, ids[:i], token) for i, token in enumerate(ids)) == TEXT


@pytest.mark.parametrize("tokenizer", [BPE, LOSSLESS, ByteTokenizer()])
def test_tokens_without_text_have_names(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode(["a€b"])
    strings = [token_string(tokenizer, ids[:i], token) for i, token in enumerate(ids)]
    assert strings[-4:] == ["<0xE2>", "<0x82>", "<0xAC>", "b"]
    assert token_string(tokenizer, ids, EOS) == "</s>"


def test_an_unknown_word_is_shown_as_in_the_text() -> None:
    ids = WORDS.encode(["a zebra cat"])[0]
    assert ids[1] == UNK and token_string(WORDS, ids[:1], UNK) == " <unk>"
