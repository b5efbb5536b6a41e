import pytest

from regard.text.ragged import Ragged
from regard.text.tokenizer import TokenizerConfig, train_tokenizer
from regard.text.vocab import EOS, PAD
from regard.text.words import WordFinder, is_unknown, join_pieces, word_indices


def test_word_indices_of_pieces_characters_and_words() -> None:
    assert word_indices(("▁the", "▁wit", "ch", "</s>")) == [0, 1, 1, -1]
    assert word_indices(("a", "b", " ", "c", "</s>")) == [0, 0, -1, 1, -1]  # characters
    assert word_indices(("▁a", "▁<unk>", "▁c", "</s>")) == [0, 1, 2, -1]  # words
    assert word_indices(("▁Zy", "<unk>", "▁c", "</s>")) == [0, 0, 1, -1]  # an unknown character inside a word
    assert word_indices(("▁", "<0xC3>", "<0xA9>", "▁x", "</s>")) == [0, 0, 0, 1, -1]  # bytes


def test_pieces_join_to_a_word() -> None:
    assert join_pieces(("▁wit", "ch")) == "witch" and join_pieces(("a", "b")) == "ab"
    assert is_unknown("▁<unk>") and is_unknown("<unk>") and not is_unknown("▁a")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word", "bytes"])
def test_words_of_a_batch_are_those_of_each_text(kind: str) -> None:
    texts = ["the green witch", "é  the ", "", " a", "xyz ž the"]
    tokenizer = train_tokenizer(texts[:2] * 20, TokenizerConfig.parse({"kind": kind, "vocab_size": 300}))
    ids = [[*row, EOS] for row in tokenizer.encode(texts)]
    matrix = Ragged.of(ids).matrix(PAD)
    for found, row in zip(WordFinder(tokenizer)(matrix), matrix, strict=True):
        assert found.tolist() == word_indices(tokenizer.tokens(row.tolist()))
