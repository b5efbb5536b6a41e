"""The claim of the lab `heads`: with equal parameters, two heads solve a task that one head cannot."""

import pytest

from regard.labs import heads
from regard.labs.result import LabResult
from regard.labs.training import Budget


@pytest.fixture(scope="module")
def result() -> LabResult:
    return heads.run(1, Budget(updates=600, samples=100))


def test_two_heads_find_two_digits_and_one_head_finds_one(result: LabResult) -> None:
    assert result.table.value("both", "2") > 0.9
    assert result.table.value("both", "1") < 0.5
    answers = [result.table.value(key, "1") for key in ("next", "previous")]
    assert max(answers) > 0.8 and min(answers) < 0.5


def test_heads_of_width_1_are_too_narrow(result: LabResult) -> None:
    assert result.table.value("width", "8") == 1
    assert result.table.value("both", "8") < result.table.value("both", "2") - 0.5


def test_the_number_of_heads_does_not_change_the_number_of_parameters(result: LabResult) -> None:
    assert len(result.table.rows) == 4 and len(set(result.table.values("parameters"))) == 1
