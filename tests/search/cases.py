"""Sources and settings that many tests of search go through."""

import pytest

from regard.search.decode import DecodeConfig
from regard.search.protocols import Hypothesis
from regard.search.sampling import SamplingConfig

SOURCES = [[7, 8, 9], [10], [11, 12, 13, 14, 15, 16], [9, 8, 7, 6], [30, 31]]
GREEDY = DecodeConfig(beam=1)
BEAM = DecodeConfig(beam=5, n_best=3)
CONSTRAINED_BEAM = DecodeConfig(beam=4, no_repeat_ngram=2, min_len=3, max_len=9)
SAMPLING = DecodeConfig(n_best=2, sampling=SamplingConfig(temperature=0.7, top_k=10, top_p=0.9, seed=3))

searches = pytest.mark.parametrize(
    "config", [GREEDY, BEAM, CONSTRAINED_BEAM], ids=["greedy", "beam", "constrained beam"]
)
searches_and_sampling = pytest.mark.parametrize(
    "config", [GREEDY, BEAM, CONSTRAINED_BEAM, SAMPLING], ids=["greedy", "beam", "constrained beam", "sampling"]
)


def assert_same_hypotheses(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """Equal ids, and scores equal up to rounding, for every sentence"""
    assert [[h.ids for h in row] for row in actual] == [[h.ids for h in row] for row in expected]
    for row, other in zip(actual, expected, strict=True):
        assert [h.score for h in row] == pytest.approx([h.score for h in other], rel=1e-5, abs=1e-5)
