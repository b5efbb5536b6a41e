"""Coverage penalty: the equation, and the ranking of finished hypotheses by it."""

import math

import pytest
import torch

from regard.data.batch import Batch, collate_sources, forced_batch
from regard.errors import UserError
from regard.search.coverage import coverage_penalty, rank_by_coverage
from regard.search.decode import DecodeConfig, decode
from regard.search.ensemble import Ensemble
from tests.conftest import tiny_model
from tests.models import configs
from tests.search.cases import SOURCES, assert_same_hypotheses

BEAM = DecodeConfig(beam=5, n_best=5)


def test_the_penalty_is_that_of_the_paper() -> None:
    attention = torch.tensor([[0.5, 1.7, 0.25, 9.0], [1.0, 2.0, 0.0, 0.1]])
    is_word = torch.tensor([[True, True, True, False], [True, True, False, False]])
    assert coverage_penalty(attention, is_word).tolist() == pytest.approx([math.log(0.5) + math.log(0.25), 0.0])


@torch.no_grad()
def test_hypotheses_are_ranked_by_score_and_coverage_of_their_own_attention() -> None:
    model, batch, beta = tiny_model(10, tied=False), collate_sources(SOURCES), 0.8
    plain, covered = decode(model, batch, BEAM), decode(model, batch, BEAM.model_copy(update={"coverage": beta}))
    n_moved = 0
    for source, before, after in zip(SOURCES, plain, covered, strict=True):
        expected = {}
        for hypothesis in before:
            traces = model.trace_attention(forced_batch([source], [hypothesis.ids])).cross
            weights = torch.stack([trace.weights[0].mean(0) for trace in traces]).mean(0)
            sums = weights.sum(0)[: len(source)].clamp(max=1)
            expected[hypothesis.ids] = hypothesis.score + beta * float(sums.log().sum())
        assert [each.ids for each in after] == sorted(expected, key=lambda ids: -expected[ids])
        assert [each.score for each in after] == pytest.approx([expected[each.ids] for each in after])
        assert {each.ids: each.log_prob for each in after} == pytest.approx({e.ids: e.log_prob for e in before})
        n_moved += [each.ids for each in after] != [each.ids for each in before]
    assert n_moved, "the penalty changes the order of some"


def test_the_best_is_the_first_of_the_whole_beam() -> None:
    model, batch = tiny_model(10, tied=False), collate_sources(SOURCES)
    best = decode(model, batch, DecodeConfig(beam=5, coverage=0.8))
    whole = decode(model, batch, BEAM.model_copy(update={"coverage": 0.8}))
    assert_same_hypotheses(best, [row[:1] for row in whole])


@pytest.mark.parametrize("name", ["transformer-transformer", "rnn-rnn", "transformer-ssm"])
def test_a_sentence_alone_gives_the_same_as_in_a_batch(name: str) -> None:
    model, config = configs.build(name, 3), DecodeConfig(beam=4, n_best=2, coverage=0.5)
    together = decode(model, collate_sources(SOURCES), config)
    for source, expected in zip(SOURCES, together, strict=True):
        assert_same_hypotheses(decode(model, collate_sources([source]), config), [expected])


def test_an_ensemble_of_copies_equals_the_model() -> None:
    model, batch, config = tiny_model(10, tied=False), collate_sources(SOURCES), DecodeConfig(beam=4, coverage=0.5)
    assert_same_hypotheses(decode(Ensemble([model, model]), batch, config), decode(model, batch, config))


def test_a_penalty_of_0_and_greedy_search_change_nothing() -> None:
    model, batch = tiny_model(10, tied=False), collate_sources(SOURCES)
    assert decode(model, batch, BEAM.model_copy(update={"coverage": 0.0})) == decode(model, batch, BEAM)
    assert decode(model, batch, DecodeConfig(beam=1, coverage=1.0)) == decode(model, batch, DecodeConfig(beam=1))


@pytest.mark.parametrize("name", ["rnn: no attention", "gpt"])
def test_models_without_cross_attention_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="coverage needs a translator with cross-attention"):
        decode(configs.build(name), collate_sources(SOURCES), DecodeConfig(beam=2, coverage=0.1))


def test_images_are_refused() -> None:
    empty = torch.empty(1, 0, dtype=torch.int64)
    with pytest.raises(UserError, match="coverage needs a translator"):
        rank_by_coverage(tiny_model(), Batch(torch.zeros(1, 3, 8, 8), empty, empty), [[]], 0.5)
