import pytest

from regard.errors import UserError
from regard.evaluate.metrics import ScoreOptions
from regard.evaluate.paired_test import PairedTestName, check_test_name, paired_test
from tests.evaluate.test_corpus_statistics import make_corpus


@pytest.mark.parametrize("name", ["bootstrap", "randomisation"])
def test_a_better_system_differs_significantly_and_an_equal_one_does_not(name: PairedTestName) -> None:
    hypotheses, references = make_corpus(40)
    equal = paired_test(name, hypotheses, hypotheses, references, ScoreOptions())
    assert [row.metric for row in equal] == ["BLEU", "chrF2", "TER"]
    assert all(row.p_value == 1.0 and row.baseline == row.system for row in equal)
    better = paired_test(name, hypotheses, references, references, ScoreOptions())
    assert all(row.p_value < 0.01 for row in better)
    same_size = paired_test(
        name, hypotheses[:20] + references[20:], references[:20] + hypotheses[20:], references, ScoreOptions()
    )
    assert all(row.p_value > 0.05 for row in same_size)


def test_an_unknown_test_is_refused() -> None:
    assert check_test_name("randomisation") == "randomisation"
    with pytest.raises(UserError, match="--paired t-test: choose one of bootstrap, randomisation"):
        check_test_name("t-test")
