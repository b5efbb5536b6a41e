import pytest
import sacrebleu

from regard.errors import UserError
from regard.evaluate.metrics import ScoreOptions, corpus_statistics, score_texts

HYPOTHESES = ["the cat sat on the mat", "a dog barked", "it rains ."]
REFERENCES = ["the cat sat on a mat", "a dog barked", "it rained today ."]


def test_text_scores_are_those_of_sacrebleu_and_exact_match_counts_equal_texts() -> None:
    scores = score_texts(HYPOTHESES, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert scores.exact == pytest.approx(100 / 3)
    assert "tok:13a" in scores.signature
    assert scores.by_name() == {"bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}
    assert "tok:none" in score_texts(HYPOTHESES, REFERENCES, tokenize="none").signature


def test_only_the_named_metrics_are_computed() -> None:
    assert list(corpus_statistics(HYPOTHESES, REFERENCES, ScoreOptions(), names=("TER",))) == ["TER"]
    assert list(corpus_statistics(HYPOTHESES, REFERENCES, ScoreOptions())) == ["BLEU", "chrF2", "TER"]


def test_an_unknown_tokenizer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="14a: choose one of 13a, intl"):
        ScoreOptions(tokenize="14a")


def test_a_tokenizer_that_needs_spaces_is_a_problem_with_references_that_have_none() -> None:
    japanese = ["猫がいる。", "彼は学生です。"]
    [problem] = ScoreOptions().problems_with(japanese)
    assert "choose --tokenize char" in problem
    assert not ScoreOptions("char").problems_with(japanese) and not ScoreOptions().problems_with(REFERENCES)
