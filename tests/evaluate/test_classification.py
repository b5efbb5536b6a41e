import pytest

from regard.evaluate.classification import label_scores


def test_accuracy_and_macro_f1() -> None:
    assert label_scores(["a", "b", "b"], ["a", "b", "b"]) == {"accuracy": 100.0, "f1": 100.0}
    # a: precision 1/2, recall 1 → F1 2/3; b: precision 1, recall 2/3 → F1 4/5
    scores = label_scores(["a", "b", "b", "b"], ["a", "a", "b", "b"])
    assert scores["accuracy"] == 75.0
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 4 / 5) / 2)
    assert label_scores(["a"], ["unseen"]) == {"accuracy": 0.0, "f1": 0.0}
