"""The claim of the lab `positions`: without positions a Transformer can sort but not reverse."""

import pytest

from regard.labs import positions
from regard.labs.letter_task import build_model
from regard.labs.positions import WITH, WITHOUT
from regard.labs.result import LabResult
from regard.labs.training import Budget


@pytest.fixture(scope="module")
def result() -> LabResult:
    return positions.run(1, Budget(updates=200, samples=100))


def test_reversing_needs_positions(result: LabResult) -> None:
    assert result.table.value("reverse", WITH) > 0.5
    assert result.table.value("reverse", WITHOUT) < 0.25


def test_sorting_does_not_need_positions(result: LabResult) -> None:
    assert result.table.value("sort", WITHOUT) > 0.7
    assert result.table.value("sort", WITHOUT) > result.table.value("sort", WITH) - 0.2


def test_without_positions_the_encoder_is_equivariant(result: LabResult) -> None:
    assert result.table.value("shift", WITHOUT) < 1e-5
    assert result.table.value("shift", WITH) > 0.05


def test_equivariance_holds_without_training() -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2, "dropout": 0.0}
    shift = {
        kind: positions.shift_of_permuted(build_model({**sizes, "positions": kind}, 1).eval(), 1)
        for kind in ("none", "sinusoidal")
    }
    assert shift["none"] < 1e-5 and shift["sinusoidal"] > 0.05


@pytest.mark.parametrize(
    ("reverse", "sort", "expected", "absent"),
    [
        ((0.9, 0.1), (0.9, 0.9), ("positions decide", "positions are not needed"), ()),
        ((0.1, 0.1), (0.9, 0.4), ("no difference", "positions still helped"), ("positions decide",)),
        ((0.1, 0.3), (0.1, 0.1), ("no difference", "neither model learnt"), ("positions decide",)),
    ],
)
def test_the_answer_follows_the_numbers(
    reverse: tuple[float, float], sort: tuple[float, float], expected: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    rows = [{"reverse": r, "sort": s, "shift": 0.1} for r, s in zip(reverse, sort, strict=True)]
    text = " ".join(positions.answer(*rows))
    assert all(part in text for part in expected) and not any(part in text for part in absent)
