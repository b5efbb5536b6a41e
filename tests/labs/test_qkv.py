"""The claim of the lab `qkv`: query, key and value need a projection each."""

import pytest
import torch

from regard.labs import qkv
from regard.labs.lookup_task import CHANCE, LookupModel
from regard.labs.result import LabResult
from regard.labs.training import Budget, seeded


@pytest.fixture(scope="module")
def result() -> LabResult:
    return qkv.run(1, Budget(updates=300, samples=100))


def test_three_matrices_solve_the_task_and_fewer_do_not(result: LabResult) -> None:
    *shared, separate = result.table.values("correct")
    assert separate > 0.95
    assert len(shared) == 3 and all(CHANCE < share < 0.75 for share in shared)


def test_scores_are_symmetric_exactly_if_query_and_key_share_a_matrix(result: LabResult) -> None:
    asymmetry = {name: row["asymmetry"] for (name,), row in result.table.rows.items()}
    assert max(asymmetry["Q = K = V"], asymmetry["Q = K, V"]) < 1e-5
    assert min(asymmetry["Q, K = V"], asymmetry["Q, K, V"]) > 0.3


def test_a_shared_matrix_makes_the_scores_symmetric_without_training() -> None:
    for form in qkv.FORMS.values():
        with seeded(1):
            attention = qkv.SharedProjections(form)
            scores = qkv.mean_scores(LookupModel(16, 1, attention), attention, 20, seed=1)
        assert (qkv.asymmetry(scores) < 1e-6) == (form[0] == form[1])


def test_asymmetry_is_0_for_symmetric_and_1_for_antisymmetric_scores() -> None:
    antisymmetric = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    assert qkv.asymmetry(antisymmetric) == pytest.approx(1.0) and qkv.asymmetry(antisymmetric.abs()) == 0
