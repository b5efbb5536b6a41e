"""Translators: order, empty lines, prefixes, streams and observers."""

import math
from typing import Any

import pytest
import torch

from regard.data.batch import Batch
from regard.errors import UserError
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import Hypothesis, SearchStep
from regard.text.seen_words import SeenWords
from tests.pipelines.examples import PIPELINES, TEXT

TEXTS = ["a cat", "", "the witch sleeps", TEXT, "red", "   "]


@pytest.fixture(params=["transformer", "rnn-additive", "concatenation", "ensemble"])
def translator(request: pytest.FixtureRequest) -> Translator:
    pipeline = PIPELINES[request.param]()
    assert isinstance(pipeline, Translator)
    return pipeline


def test_translations_are_in_the_order_of_the_texts(translator: Translator) -> None:
    together = translator.translate(TEXTS, n_best=2)
    assert [translation.source for translation in together] == TEXTS
    for text, translation in zip(TEXTS, together, strict=True):
        [alone] = translator.translate([text], n_best=2)
        assert [h.text for h in alone.hypotheses] == [h.text for h in translation.hypotheses]
        assert alone.score == pytest.approx(translation.score, abs=1e-5)
        assert len(translation.hypotheses) == 2


def test_the_translation_of_an_empty_line_is_empty(translator: Translator) -> None:
    for translation in translator.translate(["", "  "], attention=True):
        assert (translation.text, translation.score, translation.tokens) == ("", 0.0, ())
        assert translation.attention is None


def test_a_stream_equals_translating_at_once(translator: Translator) -> None:
    at_once = [translation.text for translation in translator.translate(TEXTS)]
    assert [translation.text for translation in translator.stream(iter(TEXTS), n_lines=2)] == at_once


def test_several_threads_give_the_same_and_leave_their_number_as_it_was(translator: Translator) -> None:
    texts = [" ".join(TEXT.split()[: 1 + i % 5]) + f" {i}" for i in range(60)]
    serial = [translation.text for translation in translator.translate(texts)]
    torch.set_num_threads(3)
    try:
        assert [translation.text for translation in translator.translate(texts)] == serial
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


def test_translations_start_with_their_prefixes(translator: Translator) -> None:
    prefixes = ["witch", "", "red cat"]
    translations = translator.translate(["a cat", "the cat", TEXT], prefixes=prefixes)
    for translation, prefix in zip(translations, prefixes, strict=True):
        assert translation.text.split()[: len(prefix.split())] == prefix.split()
    for translation in translator.stream(["a cat", TEXT], prefix="green"):
        assert translation.text.split()[0] == "green"


def test_an_observer_sees_the_numbers_of_the_texts_and_can_stop_them(translator: Translator) -> None:
    numbers: set[int] = set()

    def stop_the_third(step: SearchStep) -> torch.Tensor:
        numbers.update(step.sentences.tolist())
        return step.sentences == 2

    expected = translator.translate(TEXTS)
    translations = translator.translate(TEXTS, observer=stop_the_third)
    assert numbers == {0, 2, 3, 4}, "empty lines are not searched"
    for i in (0, 1, 3, 4, 5):
        assert translations[i].text == expected[i].text


def test_wrong_arguments_are_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"takes a list of texts; write translate\(\[text\]\)"):
        translator.translate(TEXT)
    with pytest.raises(UserError, match="there are 2 texts but 1 prefixes"):
        translator.translate(["a", "cat"], prefixes=["the"])
    with pytest.raises(UserError, match="did you mean 'beam'"):
        translator.translate(["a"], beem=3)


def with_words(*texts: str) -> Translator:
    """An untrained translator that knows the words of these texts"""
    pipeline = PIPELINES["linear attention"]()
    assert isinstance(pipeline, Translator)
    pipeline.words = SeenWords.count(texts)
    return pipeline


def test_case_and_punctuation_are_fitted_and_restored() -> None:
    translator = with_words("the green witch arrived", "a cat sees the witch")
    plain, title, upper, marks = translator.translate(
        ["the green witch", "The Green Witch!", "THE GREEN WITCH", "– the green witch !"], attention=True
    )
    assert title.text == plain.text[0].upper() + plain.text[1:] + "!" and upper.text == plain.text.upper()
    assert marks.text == f"– {plain.text} !"
    assert title.source == "The Green Witch!" and title.source_tokens == plain.source_tokens
    assert title.tokens == plain.tokens and title.alignment == upper.alignment == plain.alignment
    n = len(plain.text.split())
    assert marks.alignment == ((0, 0), *((i + 1, j + 1) for i, j in plain.alignment or ()), (4, n + 1))


def test_a_text_of_known_words_is_translated_as_it_is_written() -> None:
    translator = with_words(TEXT, "The")
    fitted, as_written = (translator.translate([TEXT, "The cat"], as_written=flag) for flag in (False, True))
    assert fitted == as_written
    [written] = translator.translate(["RED cat!"], as_written=True)
    assert written.source_tokens[0] != "red" and written.unknown == ("!",)


def test_a_prefix_keeps_its_case_and_the_text_is_taken_as_written() -> None:
    translator = with_words(TEXT)
    [forced] = translator.translate(["The cat!"], prefixes=["red"])
    assert forced.text.startswith("red")


def test_a_text_without_words_is_copied() -> None:
    texts = [translation.text for translation in with_words(TEXT).translate(["!!!", "", "– ?!"])]
    assert texts == ["!!!", "", "– ?!"]


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"n_best": 2}, {"sampling": {"seed": 3}}])
def test_the_translation_of_a_text_is_not_empty(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    translator = with_words(TEXT)

    def ends_at_once(model: object, batch: Batch, config: DecodeConfig, *rest: Any) -> list[list[Hypothesis]]:
        if config.min_len == 0:
            return [[Hypothesis((), 0.0, 0.0)] * config.n_best] * batch.size
        return decode(model, batch, config, *rest)

    monkeypatch.setattr("regard.pipelines.source_decoder.decode", ends_at_once)
    translations = translator.translate(["a cat", "", TEXT], **options)
    assert [bool(translation.text) for translation in translations] == [True, False, True]
    assert all(len(translation.hypotheses) == options.get("n_best", 1) for translation in translations)


def test_confidence_is_the_mean_probability_of_a_token_whatever_the_length_penalty(translator: Translator) -> None:
    texts = ["the red cat sees a witch", "a cat"]
    plain, penalised = (translator.translate(texts, beam=1, length_penalty=alpha) for alpha in (0.0, 2.0))
    for one, other in zip(plain, penalised, strict=True):
        assert one.text == other.text and 0.0 < one.confidence <= 1.0
        assert one.confidence == pytest.approx(other.confidence)
        n_tokens = len(one.tokens) + 1
        assert one.confidence == pytest.approx(math.exp(one.score / n_tokens))
        assert one.hypotheses[0].n_tokens == n_tokens
    [empty] = translator.translate([""])
    [refused] = translator.translate(["a " * 20], max_source=3, skip_long=True)
    assert empty.confidence == 1.0 and refused.confidence == 0.0


def test_sentences_of_a_text_are_translated_one_by_one() -> None:
    translator = with_words("the green witch", "a cat sees the witch")
    text = "  The cat sees.\n\nA witch!  the green witch\n"
    sentences = ["The cat sees.", "A witch!", "the green witch"]
    one, two, three = parts = translator.translate(sentences, attention=True)
    [whole, single, nothing] = translator.translate([text, "A witch!", " "], split=True, attention=True)
    assert whole.text == f"  {one.text}\n\n{two.text}  {three.text}\n" and whole.source == text
    assert whole.score == pytest.approx(sum(part.score for part in parts))
    assert whole.confidence == pytest.approx(
        math.exp(sum(part.hypotheses[0].log_prob for part in parts) / sum(len(part.tokens) + 1 for part in parts))
    )
    assert whole.tokens == one.tokens + two.tokens + three.tokens and whole.attention is None
    assert [part.attention is not None for part in whole.sentences] == [True] * 3
    assert whole.alignment is not None and max(i for i, _ in whole.alignment) < len(text.split())
    assert max(j for _, j in whole.alignment) == len(whole.text.split()) - 1
    assert {(i - 3, j - len(one.text.split())) for i, j in whole.alignment if 3 <= i < 5} == set(two.alignment or ())
    assert single.text == two.text and single.alignment == two.alignment and single.sentences == ()
    assert (nothing.text, nothing.tokens) == (" ", ())


def test_numbers_of_a_list_are_copied_and_aligned() -> None:
    translator = with_words(TEXT)
    [only] = translator.translate(["the cat"], attention=True)
    [listed] = translator.translate(["1. the cat"], attention=True, split=True)
    assert listed.text == f"1. {only.text}"
    assert listed.alignment == ((0, 0), *((i + 1, j + 1) for i, j in only.alignment or ()))


def test_texts_stay_whole_where_sentences_cannot_be_merged() -> None:
    translator, text = with_words(TEXT), "the cat. a witch."
    for options in ({"n_best": 2}, {"prefixes": ["red"]}, {"observer": lambda step: None}):
        [split], [whole] = (translator.translate([text], split=flag, **options) for flag in (True, False))
        assert split == whole


def test_a_sentence_that_is_too_long_is_reported() -> None:
    translator = with_words(TEXT)
    text = f"a cat. {TEXT}."
    [refused, other] = translator.translate([text, "a cat"], split=True, max_source=4, skip_long=True)
    assert refused.problem is not None and refused.text == "" and other.text
    with pytest.raises(UserError, match=r"a sentence of texts\[0\] has"):
        translator.translate([text], split=True, max_source=4)


@pytest.mark.parametrize("max_len", [None, 3])
def test_the_scores_of_tokens_add_up_to_the_log_probability(translator: Translator, max_len: int | None) -> None:
    translations = translator.translate(TEXTS, n_best=2, max_len=max_len)
    for translation, scored in zip(translations, translator.score_tokens(translations, n_top=2), strict=True):
        for candidate, scores in zip(translation.hypotheses, scored, strict=True):
            assert [score.id for score in scores[:-1]] == list(candidate.ids)
            assert sum(score.log_prob for score in scores) == pytest.approx(candidate.log_prob, abs=1e-4)
            assert all(score.top[0][1] >= score.log_prob - 1e-6 for score in scores)


def test_the_most_tokens_of_an_output(translator: Translator) -> None:
    for max_len, most in ((3, 3), (None, 2 * (2 + 1) + 10)):
        config = translator.decode_config.model_copy(update={"max_len": max_len})
        assert translator.max_output_tokens(2, config) == most
        [translation] = translator.translate(["a cat"], min_len=most, max_len=max_len)
        assert len(translation.hypotheses[0].ids) == most
