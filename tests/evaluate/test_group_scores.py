import pytest

from regard.evaluate.group_scores import scores_by_length, scores_by_tag
from regard.evaluate.metrics import ScoreOptions, corpus_statistics
from tests.evaluate.test_corpus_statistics import make_corpus


def test_scores_by_length_have_the_unit_of_the_sources_and_label_the_last_group_with_over() -> None:
    texts = ["a b c d e"] * 5
    statistics = corpus_statistics(texts, texts, ScoreOptions())
    unit, groups = scores_by_length([" ".join("x" * n) for n in (1, 10, 11, 41, 90)], statistics)
    assert unit == "words"
    assert [(group.name, group.sentences) for group in groups] == [("1–10", 2), ("11–20", 1), ("over 40", 2)]
    assert all(group.bleu == pytest.approx(100) and group.chrf == pytest.approx(100) for group in groups)
    unit, groups = scores_by_length(["猫" * n for n in (2, 20, 21, 81, 90)], statistics)
    assert unit == "characters"
    assert [(group.name, group.sentences) for group in groups] == [("1–20", 2), ("21–40", 1), ("over 80", 2)]


def test_scores_by_tag_are_those_of_its_sentences_and_the_most_frequent_tag_comes_first() -> None:
    hypotheses, references = make_corpus(6)
    tags = ["news", "talks", "talks", "news", "talks", ""]
    groups = scores_by_tag(tags, corpus_statistics(hypotheses, references, ScoreOptions()))
    assert [(group.name, group.sentences) for group in groups] == [("talks", 3), ("news", 2), ("", 1)]
    news = corpus_statistics([hypotheses[0], hypotheses[3]], [references[0], references[3]], ScoreOptions())
    assert groups[1].bleu == pytest.approx(news["BLEU"].score()) and groups[1].chrf == news["chrF2"].score()
