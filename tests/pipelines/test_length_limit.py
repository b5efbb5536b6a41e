"""Texts that are too long are refused or skipped, whatever their length costs nothing."""

import time

import pytest

from regard.errors import UserError
from regard.pipelines.classifier import Classifier
from regard.pipelines.length_limit import LengthLimit
from regard.pipelines.translator import Translator
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import ByteTokenizer
from tests.pipelines.examples import MAX_LEN, PIPELINES

CATS = " ".join(["cat"] * 9)


def translator(name: str = "transformer") -> Translator:
    pipeline = PIPELINES[name]()
    assert isinstance(pipeline, Translator)
    return pipeline


def test_the_smaller_of_two_limits_counts_and_is_named() -> None:
    tokenizer = ByteTokenizer()
    for limit, message in (
        (LengthLimit(4, None), "the text has 5 tokens, more than the limit of 4 tokens; split it, or raise max_source"),
        (LengthLimit(4, 9), "the text has 5 tokens, more than the limit of 4 tokens; split it, or raise max_source"),
        (LengthLimit(9, 4), "the text has 5 tokens, more than the 4 tokens that the model reads; split it"),
    ):
        assert len(limit.encode_one("aaaa", tokenizer, "the text")) == 4
        with pytest.raises(UserError) as error:
            limit.encode_one("aaaaa", tokenizer, "the text")
        assert str(error.value) == message


def test_characters_are_counted_before_a_text_is_tokenised() -> None:
    class Untouched(ByteTokenizer):
        def encode(self, texts):  # type: ignore[no-untyped-def]
            assert all(len(text) < 10**5 for text in texts)
            return super().encode(texts)

    rows, too_long = LengthLimit(1024, None).encode(["a", "x" * 10**7, "b"], Untouched())
    assert [len(row) for row in rows] == [1, 0, 1] and list(too_long) == [1]
    assert "10,000,000 characters" in too_long[1].problem


def test_a_word_of_many_characters_is_one_token() -> None:
    words = ListTokenizer("word", ["a"])
    assert LengthLimit(1, None).encode_one("x" * 900, words, "the text") == [1]


def test_translate_names_the_text_that_is_too_long() -> None:
    with pytest.raises(UserError, match=r"texts\[1\] has 9 tokens, more than the limit of 8 .* raise max_source"):
        translator().translate(["a cat", CATS], max_source=8)
    assert translator().translate(["a cat", CATS], max_source=9)[1].text
    with pytest.raises(UserError, match=rf"texts\[0\] .* more than the {MAX_LEN - 1} tokens that the model reads"):
        translator("learned positions").translate([CATS + " cat" * 3])


@pytest.mark.parametrize("name", ["transformer", "rnn-additive", "concatenation", "ensemble"])
def test_a_stream_can_skip_texts_that_are_too_long(name: str) -> None:
    texts = ["a cat", CATS, "the witch", "x" * 100_000, ""]
    results = list(translator(name).stream(texts, n_lines=2, skip_long=True, max_source=8))
    assert [bool(result.problem) for result in results] == [False, True, False, True, False]
    assert [result.source for result in results] == texts
    assert results[1].text == results[3].text == ""
    kept = translator(name).translate([texts[0], texts[2], texts[4]])
    assert [results[i].text for i in (0, 2, 4)] == [result.text for result in kept]


def test_targets_and_prefixes_have_a_limit_too() -> None:
    model = translator()
    with pytest.raises(UserError, match=r"the target has 2,000 tokens, more than the limit of 1,024 tokens"):
        model.record("a cat", "cat " * 2000)
    with pytest.raises(UserError, match=r"the prefix has 2,000 tokens"):
        model.translate(["a cat"], prefixes=["cat " * 2000])
    with pytest.raises(UserError, match=r"the text has 2,000 tokens"):
        model.record("cat " * 2000)


def test_a_classifier_reads_the_beginning_of_a_long_text() -> None:
    classifier = PIPELINES["classifier"]()
    assert isinstance(classifier, Classifier)
    started = time.perf_counter()
    [short, long] = classifier.classify(["cat " * 1024, "cat " * 1_000_000])
    assert time.perf_counter() - started < 5
    assert long.probabilities == pytest.approx(short.probabilities, abs=1e-5)
    assert classifier.count_long(["a", "cat " * 1024, "cat " * 1025, "cat " * 10**6]) == 2
