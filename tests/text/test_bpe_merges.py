import pytest

from regard.text.bpe_merges import bpe_merges
from regard.text.tokenizer import TokenizerConfig, train_tokenizer

TEXT = ["the green witch arrived", "the cat sees the witch"] * 20


def test_merges_lead_from_characters_to_the_pieces_of_the_tokenizer() -> None:
    tokenizer = train_tokenizer(TEXT, TokenizerConfig(vocab_size=290))
    merges = bpe_merges(tokenizer, "the witches arrived")
    assert merges is not None and [word.word for word in merges] == [0, 1, 2]
    for word, text in zip(merges, ("the", "witches", "arrived"), strict=True):
        assert word.stages[0] == list(f"▁{text}")
        assert word.stages[-1] == tokenizer.tokens(tokenizer.encode([text])[0])
        for before, after in zip(word.stages, word.stages[1:], strict=False):
            assert len(after) == len(before) - 1 and "".join(after) == "".join(before)


def test_long_words_and_long_texts_are_cut_short() -> None:
    tokenizer = train_tokenizer(TEXT, TokenizerConfig(vocab_size=290))
    merges = bpe_merges(tokenizer, "a " * 60 + "b")
    assert merges is not None and len(merges) == 50
    merges = bpe_merges(tokenizer, f"a {'b' * 41} c")
    assert merges is not None and [word.word for word in merges] == [0, 2]


@pytest.mark.parametrize("kind", ["unigram", "char", "word", "bytes"])
def test_tokenizers_without_merges_give_none(kind: str) -> None:
    tokenizer = train_tokenizer(TEXT, TokenizerConfig.parse({"kind": kind, "vocab_size": 290}))
    assert bpe_merges(tokenizer, "the witch") is None
