"""Each epoch has the shares asked for, and each corpus is passed pair by pair."""

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from regard.data.batch_order import BatchConfig, PairBatches
from regard.data.mixture import CorpusConfig, Mixture, StageConfig
from regard.data.mixture_order import MixtureOrder
from regard.data.pair_store import pair_store_from
from regard.errors import UserError

SIZES = {"a": 100, "b": 37, "c": 8}


def corpora(**options: dict[str, object]) -> tuple[CorpusConfig, ...]:
    return tuple(CorpusConfig.parse({"name": n, "files": [f"{n}.tsv"], **options.get(n, {})}) for n in SIZES)


def rows_of(sizes: dict[str, int]) -> dict[str, NDArray[np.int64]]:
    ends = np.cumsum(list(sizes.values()))
    return {name: np.arange(end - n, end) for (name, n), end in zip(sizes.items(), ends, strict=True)}


def order(mixture: Mixture, seed: int = 1) -> MixtureOrder:
    rows = rows_of(SIZES)
    return MixtureOrder.plan(mixture, {corpus.name: rows[corpus.name] for corpus in mixture.used}, seed)


def counts(epochs: list[NDArray[np.int64]]) -> dict[str, int]:
    """Return how many pairs of each corpus the epochs have."""
    return {name: sum(int(np.isin(epoch, rows).sum()) for epoch in epochs) for name, rows in rows_of(SIZES).items()}


def check_passes(epochs: list[NDArray[np.int64]]) -> None:
    """Check that no pair of a corpus is seen a second time before all others were seen once, and so on."""
    seen = Counter(np.concatenate(epochs).tolist())
    for rows in rows_of(SIZES).values():
        times = [seen[row] for row in rows.tolist()]
        assert max(times) - min(times) <= 1


def test_without_weights_every_pair_is_seen_once_per_epoch_or_as_often_as_it_is_upsampled() -> None:
    plain, upsampled = (order(Mixture(corpora=corpora(**options))) for options in ({}, {"c": {"upsample": 3}}))
    for epoch in (0, 1, 5):
        assert np.array_equal(plain(epoch), np.arange(145))
        assert np.array_equal(upsampled(epoch), np.sort(np.concatenate([np.arange(145), *2 * [np.arange(137, 145)]])))


@pytest.mark.parametrize("weights", [(5, 3, 2), (1, 1, 0), (0.001, 1, 1), (1 / 3, 0.7, 1e-3)])
def test_weights_give_the_shares_within_one_pair_per_epoch(weights: tuple[float, ...]) -> None:
    options = {name: {"weight": weight} for name, weight in zip(SIZES, weights, strict=True)}
    mixed = order(Mixture(corpora=corpora(**options)))
    size = sum(n for n, weight in zip(SIZES.values(), weights, strict=True) if weight)
    epochs = [mixed(epoch) for epoch in range(40)]
    for n_epochs in (1, 2, 40):
        for name, weight in zip(SIZES, weights, strict=True):
            exact = size * n_epochs * weight / sum(weights)
            assert exact - 1 < counts(epochs[:n_epochs])[name] <= exact + 1e-6
    for n_epochs in range(1, 41):
        check_passes(epochs[:n_epochs])


def test_temperature_raises_the_share_of_small_corpora() -> None:
    shares = [order(Mixture(corpora=corpora(), temperature=t)).stages[0].shares for t in (1, 5, 1000)]
    assert [float(share) for share in shares[0]] == pytest.approx([n / 145 for n in SIZES.values()])
    powers = [n**0.2 for n in SIZES.values()]
    assert [float(share) for share in shares[1]] == pytest.approx([p / sum(powers) for p in powers])
    assert [float(share) for share in shares[2]] == pytest.approx([1 / 3] * 3, abs=0.01)


def test_epochs_are_a_function_of_the_seed_and_their_number() -> None:
    mixture = Mixture(corpora=corpora(a={"weight": 0.1}, b={"weight": 1}, c={"weight": 1}))
    forwards = [order(mixture)(epoch) for epoch in range(6)]
    mixed = order(mixture)
    assert all(np.array_equal(mixed(epoch), forwards[epoch]) for epoch in reversed(range(6)))
    assert not np.array_equal(forwards[0], forwards[1]) and not np.array_equal(forwards[0], order(mixture, 2)(0))
    seeded = mixture.model_copy(update={"seed": 2})
    assert np.array_equal(order(seeded)(0), order(mixture, 2)(0))


def test_each_pass_has_another_order() -> None:
    # An epoch has 50 pairs of a, which is half a pass of it.
    weights = {"a": {"weight": 50}, "b": {"weight": 87}, "c": {"weight": 0}}
    mixed = order(Mixture(corpora=corpora(**weights)))
    halves = [set(mixed(epoch)[:50].tolist()) for epoch in (0, 2, 4, 6)]
    assert all(half <= set(range(100)) for half in halves)
    assert all(len(left & right) < 40 for left, right in combinations(halves, 2))


STAGES = (
    StageConfig(name="first", weights={"a": 0.8, "b": 0.2, "c": 0}, until="a", passes=2),
    StageConfig(name="second", weights={"a": 1, "c": 2}, until="c", passes=7),
    StageConfig(name="third", weights={"a": 0.4, "b": 0.3, "c": 0.3}, until="b", passes=None),
)


def test_a_stage_ends_when_its_corpus_was_passed_so_often() -> None:
    mixed = order(Mixture(corpora=corpora(), stages=STAGES))
    lasts = [stage.epochs for stage in mixed.stages]
    assert lasts == [2, 1, None], "250 pairs in 2 epochs of at most 137, then 84 in one of at most 108"
    first, second, third = ([mixed(e) for e in epochs] for epochs in (range(2), range(2, 3), range(3, 23)))
    assert counts(first) == {"a": 200, "b": 50, "c": 0} and counts(second) == {"a": 28, "b": 0, "c": 56}
    assert Counter(np.concatenate(first).tolist())[0] == 2 and set(Counter(second[0].tolist()).values()) == {1, 7}
    for stage, epochs in zip(mixed.stages, (first, second, third), strict=True):
        for number in range(1, len(epochs) + 1):
            for i, name in enumerate(SIZES):
                assert counts(epochs[:number])[name] == int(number * stage.amounts[i])
    check_passes([*first, *second, *third])
    assert counts(third)["b"] == int(20 * 145 * 0.3)
    lines = list(mixed.describe())
    assert lines[0] == "stage first: epochs 1 to 2, 125 pairs each: a 80 %, b 20 %"
    assert lines[2] == "stage third: from epoch 4 on, 145 pairs each: a 40 %, b 30 %, c 30 %"


def test_the_last_stage_goes_on() -> None:
    stages = (STAGES[0], STAGES[2].model_copy(update={"passes": 2}))
    mixed = order(Mixture(corpora=corpora(), stages=stages))
    assert mixed.stages[1].epochs is None and all(len(mixed(epoch)) > 100 for epoch in (2, 3, 10, 100))


def test_a_sample_has_the_mean_shares_of_the_stages() -> None:
    sample = order(Mixture(corpora=corpora(), stages=STAGES)).sample(900)
    expected = {"a": 300 * (0.8 + 1 / 3 + 0.4), "b": 300 * (0.2 + 0.3), "c": 300 * (2 / 3 + 0.3)}
    assert counts([sample]) == pytest.approx(expected, abs=1.001)


def test_a_corpus_without_pairs_is_refused() -> None:
    with pytest.raises(UserError, match=r"a\.tsv: no pair is left for training"):
        MixtureOrder.plan(Mixture.of_files((Path("a.tsv"),)), {"a.tsv": np.arange(0)}, 1)


@pytest.mark.parametrize("options", [{}, {"weight": 3}, {"upsample": 1}])
def test_one_corpus_in_a_mixture_gives_the_batches_of_the_corpus_alone(options: dict[str, object]) -> None:
    generator = np.random.default_rng(0)
    ids = [[list(generator.integers(6, 99, generator.integers(1, 30))) for _ in range(200)] for _ in range(2)]
    rows = np.delete(np.arange(200), [3, 77])  # which were held out
    config = CorpusConfig.parse({"name": "a", "files": "a.tsv", **options})
    mixed = MixtureOrder.plan(Mixture(corpora=(config,)), {"a": rows}, 1)
    streams = [
        PairBatches(pair_store_from(*ids), rows, BatchConfig(tokens=256, workers=0), 1, order=chosen)
        for chosen in (None, mixed)
    ]
    for epoch in (0, 1, 7):
        batches = [[stream.batch(epoch, i) for i in range(len(stream.plan(epoch)))] for stream in streams]
        for alone, in_mixture in zip(*batches, strict=True):
            assert torch.equal(alone.src, in_mixture.src) and torch.equal(alone.tgt_out, in_mixture.tgt_out)
