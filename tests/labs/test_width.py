"""The claim of the lab `width`: full-width heads cost more and are not more accurate."""

import pytest
import torch

from regard.labs import width
from regard.labs.result import LabResult
from regard.labs.training import Budget, count_parameters
from regard.labs.width import D_MODEL, FULL_WIDTH, HEADS, REDUCED


@pytest.fixture(scope="module")
def result() -> LabResult:
    return width.run(1, Budget(updates=80, samples=100))


def test_full_width_heads_have_h_times_as_many_parameters(result: LabResult) -> None:
    for n_heads in HEADS:
        reduced, full = (result.table.value("parameters", str(n_heads), name) for name in (REDUCED, FULL_WIDTH))
        assert full == n_heads * reduced == n_heads * 4 * D_MODEL**2
        assert [count_parameters(form(n_heads)) for form in width.FORMS.values()] == [reduced, full]


def test_full_width_heads_take_longer(result: LabResult) -> None:
    reduced, full = (result.table.value("milliseconds", str(HEADS[-1]), name) for name in (REDUCED, FULL_WIDTH))
    assert full > 1.2 * reduced


def test_full_width_heads_are_not_more_accurate(result: LabResult) -> None:
    for n_heads in HEADS[1:]:
        reduced, full = (result.table.value("correct", str(n_heads), name) for name in (REDUCED, FULL_WIDTH))
        assert full > 0.95 and reduced > full - 0.05


def test_with_one_head_the_two_forms_are_the_same() -> None:
    reduced, full = (form(1) for form in width.FORMS.values())
    full.load_state_dict(reduced.state_dict())
    x = torch.randn(2, 5, D_MODEL, generator=torch.Generator().manual_seed(0))
    assert torch.equal(reduced(x)[0], full(x)[0])
