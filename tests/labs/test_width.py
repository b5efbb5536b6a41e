"""The claims of the lab `width`: reduced heads do more at the same cost, but they can be too narrow."""

import pytest
import torch

from regard.labs.lookup_task import N_LETTERS, LookupModel
from regard.labs.training import Budget, count_parameters, seeded
from regard.labs.width import D_MODEL, FORMS, FULL_WIDTH, HEADS, REDUCED, letters_found, make_attention, measure_form


@pytest.mark.parametrize("n_heads", HEADS)
def test_full_width_heads_have_h_times_as_many_parameters(n_heads: int) -> None:
    sizes = [count_parameters(make_attention(form, n_heads)) for form in FORMS]
    assert sizes == [4 * D_MODEL**2, n_heads * 4 * D_MODEL**2]


def test_at_the_same_cost_several_heads_answer_more_than_one_and_than_many_narrow_ones() -> None:
    one, four, many = (measure_form(REDUCED, n, Budget(updates=250, samples=100), seed=1) for n in (1, 4, 16))
    assert one.parameters == four.parameters == many.parameters
    assert four.correct > 0.4 and max(one.correct, many.correct) < 0.2
    assert many.found <= 2 < four.found


@pytest.mark.parametrize("seed", range(5))
def test_a_head_of_width_1_finds_at_most_two_letters_and_a_wide_one_more(seed: int) -> None:
    found = {}
    for form in FORMS:
        with seeded(seed):
            attention = make_attention(form, D_MODEL)
            found[form] = letters_found(LookupModel(D_MODEL, 1, attention), attention)
    assert len(found[REDUCED]) == D_MODEL and max(found[REDUCED]) <= 2
    assert 2 < max(found[FULL_WIDTH]) <= N_LETTERS


def test_with_one_head_the_two_forms_are_the_same() -> None:
    reduced, full = (make_attention(form, 1) for form in FORMS)
    full.load_state_dict(reduced.state_dict())
    x = torch.randn(2, 5, D_MODEL, generator=torch.Generator().manual_seed(0))
    assert torch.equal(reduced(x)[0], full(x)[0])
