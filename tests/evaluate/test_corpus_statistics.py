"""Scores and intervals from sufficient statistics are those of sacreBLEU."""

import random

import numpy as np
import pytest

from regard.evaluate.corpus_statistics import N_SAMPLES, bootstrap_interval
from regard.evaluate.metrics import ScoreOptions, corpus_scores, corpus_statistics

_WORDS = ["the", "green", "witch", "arrived", "late", "and", "slapped", "a", "dog", "that", "barked", "in", "her"]


def make_corpus(n: int) -> tuple[list[str], list[str]]:
    """Random references, and the same with some words exchanged."""
    generator = random.Random(1)
    references = [generator.choices(_WORDS, k=generator.randint(3, 9)) for _ in range(n)]
    hypotheses = [[w if generator.random() < 0.7 else generator.choice(_WORDS) for w in row] for row in references]
    return [" ".join(row) for row in hypotheses], [" ".join(row) for row in references]


def test_scores_and_intervals_equal_those_of_sacrebleu() -> None:
    hypotheses, references = make_corpus(60)
    scores = corpus_scores(corpus_statistics(hypotheses, references, ScoreOptions()))
    for name, metric in ScoreOptions().metrics().items():
        theirs = metric.corpus_score(hypotheses, [references], n_bootstrap=N_SAMPLES)
        low, high = scores[name].interval
        assert scores[name].score == pytest.approx(theirs.score)
        assert low < theirs._mean < high and low < scores[name].score < high
        assert (high - low) / 2 == pytest.approx(theirs._ci), name
        assert scores[name].signature in metric.get_signature().format().replace("|bs:1000|seed:12345", "")


def test_scores_of_some_sentences_are_those_of_a_corpus_of_them() -> None:
    hypotheses, references = make_corpus(12)
    statistics = corpus_statistics(hypotheses, references, ScoreOptions())
    rows = [1, 4, 5, 11]
    chosen = corpus_statistics([hypotheses[i] for i in rows], [references[i] for i in rows], ScoreOptions())
    for name, metric in ScoreOptions().metrics().items():
        assert statistics[name].score(rows) == pytest.approx(chosen[name].score())
        each = [metric.sentence_score(h, [r]).score for h, r in zip(hypotheses, references, strict=True)]
        if name != "BLEU":  # whose score of a sentence takes n-grams of fewer orders
            assert statistics[name].sentence_scores() == pytest.approx(each)


def test_the_interval_of_a_mean_covers_it_and_shrinks_with_more_sentences() -> None:
    values = np.random.default_rng(0).normal(5.0, 1.0, size=400)

    def interval(n: int) -> tuple[float, float]:
        return bootstrap_interval(values[:n, None], lambda sums: float(sums[0]) / n)

    for n in (25, 400):
        low, high = interval(n)
        assert low < values[:n].mean() < high
        assert (high - low) / 2 == pytest.approx(1.96 * values[:n].std() / n**0.5, rel=0.15)
    assert bootstrap_interval(values[:1, None], lambda sums: float(sums[0])) == (values[0], values[0])
