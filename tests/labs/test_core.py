"""The claims of the lab `core`: attention is a mean of similar words, and repeating it averages the tokens."""

import math

import pytest

from regard.labs import core
from regard.labs.result import LabResult
from regard.labs.training import Budget


@pytest.fixture(scope="module")
def result() -> LabResult:
    return core.run(2, Budget(updates=0, samples=200))


def test_a_word_moves_towards_the_similar_word_of_its_sentence(result: LabResult) -> None:
    for sentence, near, far in zip(core.SENTENCES, core.NEIGHBOURS, core.NEIGHBOURS[::-1], strict=True):
        cosine = {word: result.table.value(f"cosine with {word}", sentence) for word in core.NEIGHBOURS}
        alone = {word: result.table.value(f"cosine with {word}", "alone") for word in core.NEIGHBOURS}
        assert alone[near] == pytest.approx(alone[far])
        assert cosine[near] > alone[near] + 0.05 and cosine[far] < alone[far] - 0.05


def test_outputs_stay_among_the_values_only_with_softmax(result: LabResult) -> None:
    assert result.metrics["outside values, softmax"] == 0
    assert result.metrics["outside values, no softmax"] > 0.5


def test_repeated_attention_averages_the_tokens(result: LabResult) -> None:
    spread = core.relative_spread(seed=1)
    assert spread[0] == 1 and spread == sorted(spread, reverse=True)
    assert result.metrics["relative spread"] < 0.2


def test_weights_and_output_agree_with_a_calculation_by_hand() -> None:
    weights, apple = core.attend_in_sentence(("Apple", "Orange"))
    share = 1 / (1 + math.exp(6 - 8))  # Apple·Apple = 8, Apple·Orange = 6
    assert weights == pytest.approx({"Apple": share, "Orange": 1 - share})
    assert apple.tolist() == pytest.approx([2 * share, 2 * share + 3 * (1 - share), 0])
