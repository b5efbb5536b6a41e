"""Greedy search, also as a beam of width 1."""

import math

import pytest

from regard.data.batch import collate_sources
from regard.search.beam import BeamSearch
from regard.search.decode import DecodeConfig, decode
from tests.conftest import tiny_model
from tests.search.cases import SOURCES, assert_same_hypotheses
from tests.search.table_model import A, B, C, lecture_example


def test_greedy_search_misses_the_better_hypothesis_of_the_lecture() -> None:
    [[greedy]] = decode(lecture_example(), collate_sources([[6]]), DecodeConfig(beam=1, length_penalty=0.0))
    assert greedy.ids == (A, B, C) and math.exp(greedy.log_prob) == pytest.approx(0.048)


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_1_equals_greedy_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch, config = tiny_model(seed), collate_sources(SOURCES), DecodeConfig(beam=1)
    greedy = decode(model, batch, config)
    monkeypatch.setattr("regard.search.decode.search_rule", lambda config: BeamSearch(1, 1, config.length_penalty))
    assert_same_hypotheses(decode(model, batch, config), greedy)
