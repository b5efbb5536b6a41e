"""The claim of the lab `scaling`: without 1/√d the scores grow with the width and gradients vanish."""

import math

import pytest
from torch import Tensor, nn

from regard.labs import scaling
from regard.labs.result import LabResult
from regard.labs.scaling import PLAIN, SCALED, WIDTHS
from regard.labs.training import Budget
from regard.nn.scores import Dot, ScaledDot


@pytest.fixture(scope="module")
def result() -> LabResult:
    return scaling.run(1, Budget(updates=0, samples=200))


def by_width(result: LabResult, column: str, score: str) -> list[float]:
    return [result.table.value(column, str(d), score) for d in WIDTHS]


def test_the_variance_of_the_scores_is_d_without_the_scale_and_1_with_it(result: LabResult) -> None:
    assert by_width(result, "variance", PLAIN) == pytest.approx(WIDTHS, rel=0.2)
    assert by_width(result, "variance", SCALED) == pytest.approx([1] * len(WIDTHS), rel=0.2)


def test_without_the_scale_the_softmax_saturates(result: LabResult) -> None:
    plain, scaled = by_width(result, "entropy", PLAIN), by_width(result, "entropy", SCALED)
    assert plain == sorted(plain, reverse=True) and plain[-1] < 0.5
    assert min(scaled) > 5 and max(scaled) - min(scaled) < 0.2


def test_without_the_scale_gradients_vanish(result: LabResult) -> None:
    plain, scaled = by_width(result, "derivative", PLAIN), by_width(result, "derivative", SCALED)
    assert plain[-1] < 0.05 * plain[0]
    assert max(scaled) < 1.2 * min(scaled)


def test_the_two_scores_differ_by_the_factor_alone() -> None:
    for d in (4, 64, 512):
        plain, scaled = (scaling.measure_scores(score, d, 200, seed=5) for score in (Dot(), ScaledDot()))
        assert plain.variance == pytest.approx(d, rel=0.15)
        assert scaled.variance == pytest.approx(1, rel=0.15)
        assert scaled.variance * d == pytest.approx(plain.variance, rel=1e-4)
        assert plain.entropy < scaled.entropy < math.log2(64)
    assert plain.derivative < 0.1 * scaled.derivative


def test_equal_scores_give_the_entropy_and_the_derivative_known_by_hand() -> None:
    class ZeroScore(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return 0 * Dot()(q, k)

    statistics = scaling.measure_scores(ZeroScore(), 8, 3, seed=1)
    assert statistics.entropy == pytest.approx(6)  # log2 of 64 keys
    assert statistics.derivative == pytest.approx(math.sqrt(63) / 64)  # ‖(I − 11ᵀ/n) / n‖ = √(n − 1) / n
