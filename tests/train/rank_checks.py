"""What two ranks must have in common. `torchrun -m tests.train.rank_checks FOLDER` runs this on each of them."""

import os
import sys
from pathlib import Path

import pytest
import torch

from regard.errors import UserError
from regard.models.adapters import LoraConfig, add_adapters
from regard.models.freeze import freeze
from regard.train.ranks import OtherRankFailed, Ranks, join_ranks
from tests.train.test_trainer import assert_close, trained


def updates_equal_those_of_one_rank(ranks: Ranks, folder: Path) -> None:
    for options in (
        {"dropout": 0.3, "parts": 2},
        {"dropout": 0.3, "parts": 4, "r_drop": 1.0, "accumulate": 2, "ema": 0.9},
        {"tokens": 8, "steps": 6},  # batches of one row, of which one rank has none
        {"optimizer": "muon"},
        {"prepare": lambda model: freeze(model, ("encoder",))},
    ):
        alone = trained(folder, **options)  # type: ignore[arg-type]
        assert_close(trained(folder, ranks=ranks, **options), alone, 1e-9)  # type: ignore[arg-type]


def sharded_updates_equal_whole_ones(ranks: Ranks, folder: Path) -> None:
    for options in (
        {"dropout": 0.3, "parts": 4, "ema": 0.9},
        {"tokens": 8, "steps": 6},
        {"prepare": lambda model: freeze(model, ("encoder",))},
        {"prepare": lambda model: add_adapters(model, LoraConfig(rank=2))},
    ):
        alone = trained(folder, **options)  # type: ignore[arg-type]
        sharded = trained(folder, ranks=ranks, shard=True, **options)  # type: ignore[arg-type]
        if ranks.is_first:  # which gathers the weights
            assert_close(sharded, alone, 1e-9)


def ranks_agree(ranks: Ranks, folder: Path) -> None:
    assert ranks.largest(ranks.rank, -ranks.rank) == [1.0, 0.0]
    assert ranks.any(ranks.rank == 1) and not ranks.any(False)
    assert ranks.from_first(lambda: {"rank": ranks.rank}) == {"rank": 0}
    tensor = torch.full((3,), float(ranks.rank + 1))
    ranks.add(tensor)
    assert tensor.tolist() == [3.0] * 3
    tensor = torch.full((3,), float(ranks.rank))
    ranks.copy_from_first(tensor)
    assert tensor.tolist() == [0.0] * 3


def a_difference_is_refused(ranks: Ranks, folder: Path) -> None:
    if ranks.is_first:
        ranks.check_equal("one", "data", "use the same")
        return
    with pytest.raises(UserError, match="rank 1 has data other, but rank 0 has one; use the same"):
        ranks.check_equal("other", "data", "use the same")


def the_failure_of_the_first_ends_the_others(ranks: Ranks, folder: Path) -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError if ranks.is_first else OtherRankFailed):
        ranks.from_first(fail)


CHECKS = (
    ranks_agree,
    a_difference_is_refused,
    the_failure_of_the_first_ends_the_others,
    updates_equal_those_of_one_rank,
    sharded_updates_equal_whole_ones,
)


def main(folder: Path) -> None:
    with join_ranks(torch.device("cpu")) as ranks:
        for check in CHECKS:
            check(ranks, folder / str(ranks.rank))
            if ranks.is_first:
                print(f"ok {check.__name__}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # threads of connections can abort a process while Python ends
