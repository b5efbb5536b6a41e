"""Evaluation of translators."""

from regard.evaluate.metrics import ScoreOptions
from regard.evaluate.test_set import TestSet
from regard.evaluate.translation import evaluate
from regard.text.seen_words import SeenWords
from tests.pipelines.test_translator import with_words

TEXTS = ["THE CAT SEES!", "A Cat. The witch."]


def test_texts_are_scored_as_they_are_written() -> None:
    translator = with_words("the green witch arrived", "a cat sees the witch")
    assert isinstance(translator.words, SeenWords)
    written = [translation.text for translation in translator.translate(TEXTS, as_written=True)]
    assert written != [translation.text for translation in translator.translate(TEXTS)]
    evaluation = evaluate(translator, TestSet(TEXTS, ["a", "b"]), ScoreOptions())
    assert evaluation.hypotheses == written
