"""The edges of tokens: which ones continue a word."""

import pytest

from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import ByteTokenizer, SentencePieceTokenizer, Tokenizer, TokenizerConfig
from regard.text.vocab import EOS
from regard.text.word_edges import WordEdges, edges_of_text

PIECES = SentencePieceTokenizer.train(
    ["das Haus und die Haustür (ein Häuschen), 猫 กิ"] * 9, TokenizerConfig(vocab_size=330)
)
CHARS = ListTokenizer("char", sorted(set("das Haustür,(猫กิ")))
BYTES = ByteTokenizer()


def joins(tokenizer: Tokenizer, before: str, after: str) -> bool:
    """Whether the first token of `after` continues a word that ends with `before`."""
    edges, [ids] = WordEdges.of(tokenizer), tokenizer.encode([before + after])
    token = ids[len(tokenizer.encode([before])[0])]
    return bool(edges.starts_with_mark[token] or (edges_of_text(before)[1] and edges.starts_with_letter[token]))


@pytest.mark.parametrize("tokenizer", [CHARS, BYTES], ids=["characters", "bytes"])
def test_letters_continue_words_and_other_characters_do_not(tokenizer: Tokenizer) -> None:
    assert joins(tokenizer, "Haus", "tür") and joins(tokenizer, "Haus", "ü") and joins(tokenizer, "ü", "r")
    assert not any(joins(tokenizer, "Haus", after) for after in (" tür", ",", "("))
    assert not joins(tokenizer, "猫", "猫") and not joins(tokenizer, "Haus", "猫") and not joins(tokenizer, "猫", "a")


def test_a_vowel_sign_continues_the_character_before_it() -> None:
    assert joins(CHARS, "ก", "ิ")


def test_pieces() -> None:
    edges, pieces = WordEdges.of(PIECES), PIECES.tokens(range(PIECES.size))
    for i, piece in enumerate(pieces):
        if piece.startswith("▁"):
            assert not edges.starts_with_letter[i] and not edges.starts_with_mark[i], piece
        elif piece.isascii() and piece.isalpha():
            assert edges.starts_with_letter[i] and edges.ends_with_letter[i], piece
    comma, word_start = pieces.index(","), pieces.index("▁")
    assert not any(
        table[i] for table in (edges.starts_with_letter, edges.ends_with_letter) for i in (comma, word_start, EOS)
    )


def test_edges_of_texts() -> None:
    assert edges_of_text("Haus") == (True, True) and edges_of_text(" Haus") == (False, True)
    assert edges_of_text("猫") == (False, False) and edges_of_text("(2)") == (False, False)
