"""Large epochs are planned in windows: every pair once, resumable anywhere, the same for any number of threads."""

from itertools import islice

import numpy as np
import pytest
import torch

from regard.data import row_windows
from regard.data.batch import Batch
from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition, count_batches, plan
from regard.data.mixture import CorpusConfig, Mixture
from regard.data.mixture_order import MixtureOrder
from regard.data.pair_store import pair_store_from
from regard.data.row_windows import RowsExcept, n_windows, shuffled_blocks, window_limits

N = 1_003


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_windows, "WINDOW", 150)
    monkeypatch.setattr(row_windows, "BLOCK", 16)


def batches(workers: int = 0, order: MixtureOrder | None = None, seed: int = 1) -> PairBatches:
    generator = np.random.default_rng(0)
    sides = [[list(generator.integers(6, 99, generator.integers(1, 60))) for _ in range(N)] for _ in range(2)]
    rows = RowsExcept(0, N, np.array([3, 500, 501]))
    return PairBatches(pair_store_from(*sides), rows, BatchConfig(tokens=512, workers=workers), seed, order=order)


def mixture_order(**weights: int) -> MixtureOrder:
    corpora = tuple(
        CorpusConfig.parse({"name": name, "files": f"{name}.tsv", "weight": n}) for name, n in weights.items()
    )
    rows = RowsExcept(0, N, np.array([3, 500, 501]))
    return MixtureOrder.plan(Mixture(corpora=corpora), {"a": rows.between(0, 700), "b": rows.between(700, N)}, 1)


def take(stream: PairBatches, start: StreamPosition, n: int) -> list[tuple[StreamPosition, Batch]]:
    return list(islice(stream.stream(start), n))


def same(left: list[tuple[StreamPosition, Batch]], right: list[tuple[StreamPosition, Batch]]) -> bool:
    return all(
        a == b and torch.equal(x.src, y.src) and torch.equal(x.tgt_out, y.tgt_out)
        for (a, x), (b, y) in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("n", [1, 16, 17, 150, 1000, N])
def test_windows_together_have_every_row_once(n: int) -> None:
    rows = [
        shuffled_blocks(n, *window_limits(n, window), np.random.Philox(7)).tolist() for window in range(n_windows(n))
    ]
    assert all(window == sorted(window) and len(window) <= 150 for window in rows)
    assert sorted(row for window in rows for row in window) == list(range(n))


@pytest.mark.parametrize("left_out", [[], [0], [3, 4, 9], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_rows_without_some_are_what_remains_of_an_array(left_out: list[int]) -> None:
    rows, array = RowsExcept(0, 10, np.array(left_out, dtype=np.int64)), np.delete(np.arange(10), left_out)
    assert len(rows) == len(array) and rows.all().tolist() == array.tolist()
    for start in range(10):
        for stop in range(start, 11):
            inside = array[(array >= start) & (array < stop)]
            assert rows.between(start, stop).all().tolist() == inside.tolist()


def test_every_pair_is_in_an_epoch_exactly_once_and_epochs_and_seeds_differ() -> None:
    stream = batches()
    orders = [np.concatenate(stream.plan(epoch)) for epoch in (0, 1)] + [np.concatenate(batches(seed=2).plan(0))]
    assert stream.n_windows(0) == 7
    for order in orders:
        assert sorted(order.tolist()) == np.delete(np.arange(N), [3, 500, 501]).tolist()
    assert len({tuple(order.tolist()) for order in orders}) == 3


@pytest.mark.parametrize("weights", [{}, {"a": 2, "b": 1}])
def test_the_stream_can_be_started_anywhere_and_does_not_depend_on_threads(weights: dict[str, int]) -> None:
    order = mixture_order(**weights) if weights else None
    n = len(batches(order=order).plan(0))
    whole = take(batches(order=order), StreamPosition(0, 0), 2 * n)
    assert whole[n - 1][0] == StreamPosition(1, 0)
    assert same(take(batches(3, order), StreamPosition(0, 0), 2 * n), whole)
    for cut in (1, n // 3, n // 2, n - 1, n, n + 5):
        assert same(take(batches(order=order), whole[cut - 1][0], 20), whole[cut : cut + 20])
    _, batch = whole[n // 2]
    assert torch.equal(batches(order=order).batch(0, n // 2).src, batch.src)


def test_each_corpus_of_a_mixture_is_passed_pair_by_pair() -> None:
    order = mixture_order(a=1, b=2)
    epochs = [np.concatenate([order(epoch, w) for w in range(order.n_windows(epoch))]) for epoch in range(3)]
    assert order.n_windows(0) == 7 and len(epochs[0]) in (999, 1000)
    for low, high in ((0, 700), (700, N)):
        seen = [int((np.concatenate(epochs) == row).sum()) for row in range(low, high) if row not in (3, 500, 501)]
        assert max(seen) - min(seen) <= 1


@pytest.mark.parametrize("n", [1, 40, 3000])
@pytest.mark.parametrize("budget", [64, 4096])
def test_batches_are_counted_without_a_plan(n: int, budget: int) -> None:
    generator = np.random.default_rng(n)
    lengths = generator.integers(1, 300, n), generator.integers(1, 400, n)
    assert count_batches(lengths, budget) == len(plan(lengths, budget, np.random.Philox(1)))


def test_a_small_epoch_is_one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_windows, "WINDOW", N)
    assert batches().n_windows(0) == 1
    assert np.array_equal(np.sort(np.concatenate(batches().window(0, 0))), np.delete(np.arange(N), [3, 500, 501]))
