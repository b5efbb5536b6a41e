import pytest

from regard.text.ragged import Ragged
from regard.text.tokenizer import TokenizerConfig, train_tokenizer
from regard.text.units import unit_spans
from regard.text.vocab import EOS, PAD
from regard.text.words import TokenWords, WordFinder, is_unknown, join_pieces, word_indices


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
    texts = ["the green witch", "é  the ", "", " a", "xyz ž the", "iPhoneを買った。", "私 は 学生 です", "the 猫"]
    tokenizer = train_tokenizer(texts[:2] * 20, TokenizerConfig.parse({"kind": kind, "vocab_size": 300}))
    ids = [[*row, EOS] for row in tokenizer.encode(texts)]
    matrix = Ragged.of(ids).matrix(PAD)
    for found, row in zip(WordFinder(tokenizer)(matrix), matrix, strict=True):
        assert found.tolist() == word_indices(tokenizer.tokens(row.tolist()))


@pytest.mark.parametrize(
    ("tokens", "indices", "n_units"),
    [
        (("▁私は", "学生", "です", "。", "</s>"), [0, 1, 2, 3, -1], [2, 2, 2, 1]),
        (("▁iPh", "one", "を", "買った"), [0, 0, 1, 2], [1, 1, 3]),  # pieces of a Latin word are one word
        (("▁", "私は", "学生", "です", "▁", "彼"), [0, 0, 1, 2, 3, 3], [2, 2, 2, 1]),  # a space belongs to what follows
        (("<0xE7>", "<0x8C>", "<0xAB>", "が"), [0, 0, 0, 1], [1, 1]),  # bytes of one character
        (("รั", "ก", "ภ", "า"), [0, 1, 2, 3], [1, 1, 1, 1]),
        (("ร", "\u0e31", "ก"), [0, 0, 1], [1, 1]),  # a vowel sign belongs to the letter before it
        (("▁私", "▁は", "▁学", "生", "▁です"), [0, 1, 2, 2, 3], [1, 1, 1, 1]),  # separated by spaces
        (("▁the", "▁猫", "▁sat"), [0, 1, 2], [1, 1, 1]),
        (("で", "す", "。", " ", "犬", "が", "い", "る"), [0, 1, 2, -1, 3, 4, 5, 6], [1] * 7),  # characters
    ],
)
def test_without_spaces_each_token_is_a_word(tokens: tuple[str, ...], indices: list[int], n_units: list[int]) -> None:
    words = TokenWords.of(tokens)
    assert (words.indices, words.n_units) == (indices, n_units)


def test_tokens_know_the_first_unit_of_their_word() -> None:
    assert TokenWords.of(("▁私は", "学生", "です", "</s>")).first_units() == [0, 2, 4, -1]
    assert TokenWords.of(("▁the", "▁wit", "ch", "</s>")).first_units() == [0, 1, 1, -1]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "bytes"])
def test_words_have_the_units_of_the_text(kind: str) -> None:
    texts = ["iPhoneを買った。", "私は学生です。 彼は先生です。", "我在2020年买了", "รักภาษาไทย", "the cat"]
    tokenizer = train_tokenizer(texts[:2] * 20, TokenizerConfig.parse({"kind": kind, "vocab_size": 300}))
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        if kind != "char" or text in texts[:2]:  # it has no symbols for the other characters
            assert sum(TokenWords.of(tokenizer.tokens(ids)).n_units) == len(unit_spans(text)), text
