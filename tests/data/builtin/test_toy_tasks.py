import pytest

from regard.data.builtin.toy_tasks import toy_pairs
from regard.errors import UserError


@pytest.mark.parametrize("task", ["copy", "reverse", "sort"])
def test_targets_are_copied_reversed_or_sorted(task: str) -> None:
    pairs = toy_pairs(task, 50, lengths=(2, 40), n_letters=5)
    assert pairs == toy_pairs(task, 50, lengths=(2, 40), n_letters=5) != toy_pairs(task, 50, lengths=(2, 40), seed=2)
    for src, tgt in pairs:
        letters = src.split()
        assert 2 <= len(letters) <= 40 and set(letters) <= set("abcde")
        assert tgt.split() == {"copy": letters, "reverse": letters[::-1], "sort": sorted(letters)}[task]


def test_the_error_for_an_unknown_task_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="copy, reverse, sort"):
        toy_pairs("shuffle", 1)
