"""The claim of the lab `bottleneck`: without attention, exact match falls with the length of the line."""

import pytest

from regard.labs import bottleneck
from regard.labs.bottleneck import LENGTHS, exact_match_by_length, longest_solved
from regard.labs.result import LabResult
from regard.labs.training import Budget

NARROW, WIDE, ATTENTION = bottleneck.MODELS


@pytest.fixture(scope="module")
def shares() -> dict[str, dict[int, float]]:
    """Model → length → exact match."""
    result: LabResult = bottleneck.run(1, Budget(updates=200, samples=40))
    return {
        name: dict(zip(LENGTHS, exact_match_by_length(result.table, name), strict=True)) for name in bottleneck.MODELS
    }


def test_exact_match_falls_with_length_much_more_without_attention(shares: dict[str, dict[int, float]]) -> None:
    fall = {name: by_length[2] - by_length[10] for name, by_length in shares.items()}
    assert fall[ATTENTION] < 0.2
    assert fall[NARROW] > fall[ATTENTION] + 0.4 and fall[WIDE] > fall[ATTENTION] + 0.4


def test_on_the_longest_lines_only_attention_succeeds(shares: dict[str, dict[int, float]]) -> None:
    assert shares[ATTENTION][14] > 0.4
    assert shares[NARROW][14] < 0.1 and shares[WIDE][14] < 0.1


def test_a_wider_vector_moves_the_limit(shares: dict[str, dict[int, float]]) -> None:
    narrow, wide, attention = (longest_solved(list(shares[name].values())) for name in (NARROW, WIDE, ATTENTION))
    assert narrow < wide < attention


def test_longest_solved_is_the_length_up_to_which_most_lines_are_correct() -> None:
    examples = ([1.0] * 7, [1, 0.9, 0.2, 0.9, 0, 0, 0], [0.0] * 7)
    assert [longest_solved(shares) for shares in examples] == [14, 4, 0]
