"""Minimum Bayes risk decoding: the choice from given samples, and translators that use it."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.errors import UserError
from regard.pipelines.mbr import choose_by_mbr
from regard.pipelines.translator import Translator
from regard.search.protocols import Hypothesis
from tests.pipelines.examples import STACK, TEXT, translator

TEXTS = [TEXT, "a cat", "the green witch arrived", "witch witch", "sees"]
SAMPLING = {"epsilon": 0.02, "temperature": 8.0, "seed": 3}


def sampled(texts: list[str]) -> list[Hypothesis]:
    return [Hypothesis((i,), -float(i), -float(i)) for i in range(len(texts))]


def test_the_sample_with_the_highest_mean_chrf_is_chosen() -> None:
    texts = ["the cat sleeps", "a dog", "the cat slept", "the cats sleep", "a dog"]
    chosen, metric = choose_by_mbr(sampled(texts), texts), CHRF()
    utilities = [sum(metric.sentence_score(h, [r]).score for r in texts) / len(texts) for h in texts]
    assert chosen.ids == (utilities.index(max(utilities)),) and chosen.score == pytest.approx(max(utilities))


def test_of_equal_samples_the_first_is_chosen() -> None:
    assert choose_by_mbr(sampled(["a b", "c d"]), ["a b", "c d"]).ids == (0,)
    assert choose_by_mbr(sampled(["", ""]), ["", ""]).ids == (0,)


@pytest.fixture
def model() -> Translator:
    return translator(STACK)


def test_one_sample_is_taken_as_it_is(model: Translator) -> None:
    plain = model.translate(TEXTS, n_best=1, sampling=SAMPLING)
    assert [t.text for t in model.translate(TEXTS, mbr=1, sampling=SAMPLING)] == [t.text for t in plain]


def test_samples_are_those_of_sampling_and_a_text_alone_gives_the_same(model: Translator) -> None:
    chosen = model.translate(TEXTS, mbr=8, min_len=1, sampling=SAMPLING)
    assert len({translation.text for translation in chosen}) > 2
    for text, translation in zip(TEXTS, chosen, strict=True):
        [samples] = model.translate([text], n_best=8, min_len=1, sampling=SAMPLING)
        assert translation.text in {candidate.text for candidate in samples.hypotheses}
        [alone] = model.translate([text], mbr=8, min_len=1, sampling=SAMPLING)
        assert (alone.text, alone.score) == (translation.text, pytest.approx(translation.score))
        assert len(translation.hypotheses) == 1 and 0 < translation.score <= 100


def test_the_seed_decides(model: Translator) -> None:
    first, second, other = (model.translate(TEXTS, mbr=4, sampling={**SAMPLING, "seed": seed}) for seed in (1, 1, 2))
    assert [t.text for t in first] == [t.text for t in second] != [t.text for t in other]


def test_samples_leave_out_unlikely_tokens_by_default(model: Translator) -> None:
    hot = {"temperature": 8.0, "seed": 3}
    default, same, other = (
        [t.text for t in model.translate(TEXTS, mbr=8, min_len=1, sampling=sampling)]
        for sampling in (hot, SAMPLING, {**hot, "epsilon": 0.0})
    )
    assert default == same != other


@pytest.mark.parametrize("options", [{"n_best": 2}, {"coverage": 0.2}], ids=str)
def test_options_that_have_no_effect_on_samples_are_refused(model: Translator, options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"so {next(iter(options))} has no effect"):
        model.translate(TEXTS, mbr=4, **options)
