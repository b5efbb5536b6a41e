import pytest

from regard.evaluate.validation import Validation
from regard.train.progress import Progress

NAN = float("nan")


def validated(rank: float, loss: float, before: Progress | None = None) -> Progress:
    before = before or Progress()
    return Progress(**{**vars(before), "step": before.step + 1}).after(Validation(loss, rank, {}))


def test_a_better_rank_or_a_lower_loss_at_an_equal_rank_is_the_best_so_far() -> None:
    first = validated(1.0, 3.0)
    assert (first.best_step, first.stale, first.validated) == (1, 0, 1)
    worse = validated(0.5, 4.0, first)
    assert (worse.best_step, worse.stale, worse.rank, worse.loss) == (1, 1, 0.5, 4.0)
    lower_loss = validated(1.0, 2.0, worse)
    assert (lower_loss.best_step, lower_loss.stale, lower_loss.best_loss) == (3, 0, 2.0)
    assert validated(1.0, 2.0, lower_loss).stale == 1, "equal is not better"


def test_patience_counts_validations_in_which_neither_rank_nor_loss_improves() -> None:
    first = validated(1.0, 3.0)
    lower_loss = validated(0.5, 2.0, first)
    assert (lower_loss.stale, lower_loss.best_step) == (0, 1), "it still learns, but the best weights stay the first"
    better_rank = validated(1.5, 2.5, lower_loss)
    assert (better_rank.stale, better_rank.best_step) == (0, 3)
    neither = validated(1.2, 2.2, better_rank)
    assert neither.stale == 1 and validated(1.2, 2.2, neither).stale == 2


@pytest.mark.parametrize(("rank", "loss"), [(NAN, NAN), (1.0, NAN), (NAN, 4.0), (0.0, NAN)])
def test_a_validation_of_nan_is_never_the_best(rank: float, loss: float) -> None:
    good = validated(1.0, 3.0)
    bad = validated(rank, loss, good)
    assert (bad.best, bad.best_loss, bad.best_step, bad.stale) == (1.0, 3.0, 1, 1)
    better = validated(2.0, 2.0, bad)
    assert (better.best_step, better.stale) == (3, 0)
