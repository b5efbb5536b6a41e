from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
import torch

from regard.data import epoch_pairs
from regard.data.batch import PADDED_LENGTHS, Batch, collate, padded_length
from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition, rows_for
from regard.data.pair_store import pair_store_from
from regard.text.bpe_dropout import BpeDropout
from regard.text.ragged import Ragged
from regard.text.tokenizer import TokenizerConfig, train_tokenizer
from regard.text.vocab import EOS, PAD

N = 500


def batches(seed: int = 1, workers: int = 0, **options: object) -> PairBatches:
    generator = np.random.default_rng(0)
    rows = [[list(generator.integers(6, 99, generator.integers(1, 60))) for _ in range(N)] for _ in range(2)]
    rows[0][0] = [7] * 300  # longer than the last padded length
    config = BatchConfig(tokens=512, workers=workers)
    return PairBatches(pair_store_from(*rows), np.arange(N), config, seed, **options)  # type: ignore[arg-type]


def take(
    stream: Iterator[tuple[StreamPosition, Batch]], n: int
) -> list[tuple[StreamPosition, torch.Tensor, torch.Tensor]]:
    return [(position, batch.src, batch.tgt_in) for position, batch in islice(stream, n)]


def same(left: list, right: list) -> bool:  # type: ignore[type-arg]
    return all(
        a[0] == b[0] and torch.equal(a[1], b[1]) and torch.equal(a[2], b[2]) for a, b in zip(left, right, strict=True)
    )


def test_every_pair_is_in_an_epoch_exactly_once_and_epochs_differ() -> None:
    stream = batches()
    first, second = stream.plan(0), batches().plan(1)
    for plan in (first, second):
        assert sorted(np.concatenate(plan)) == list(range(N))
    assert [b.tolist() for b in first] != [b.tolist() for b in second]
    assert [b.tolist() for b in first] != [b.tolist() for b in batches(seed=2).plan(0)]


def test_padded_shapes_are_few_and_within_the_budget() -> None:
    stream = batches()
    for index in range(len(stream.plan(0))):
        batch = stream.batch(0, index)
        (rows, s), t = batch.src.shape, batch.tgt_in.shape[1]
        assert {padded_length(s), padded_length(t)} == {s, t}, "lengths are padded lengths"
        assert rows == rows_for(max(s, t), 512)
        assert rows == 1 or rows * max(s, t) <= 512
    assert padded_length(PADDED_LENGTHS[-1] + 1) % 64 == 0


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_order_is_the_same_for_any_number_of_workers(workers: int) -> None:
    start = StreamPosition(0, 3)
    assert same(take(batches().stream(start), 120), take(batches(workers=workers).stream(start), 120))


def test_the_stream_can_be_started_at_any_position() -> None:
    whole = take(batches().stream(StreamPosition(0, 0)), 130)
    for cut in (1, 50, 101):
        position = whole[cut - 1][0]
        assert same(take(batches().stream(position), 20), whole[cut : cut + 20])


@pytest.mark.parametrize("max_tokens", [0, 1 << 25])
def test_bpe_dropout_is_a_function_of_seed_epoch_and_position(max_tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_pairs, "_MAX_TOKENS", max_tokens)  # 0: the corpus does not fit into memory
    text = ["the green witch arrived", "the cat sees the green witch"] * 50
    tokenizer = train_tokenizer(text, TokenizerConfig(vocab_size=320))
    dropout = BpeDropout(tokenizer, 0.3)
    store = pair_store_from(tokenizer.encode(text), tokenizer.encode(text))

    def stream(seed: int, workers: int) -> list[tuple[StreamPosition, torch.Tensor, torch.Tensor]]:
        config = BatchConfig(tokens=64, workers=workers)
        return take(
            PairBatches(store, np.arange(100), config, seed, (dropout, dropout)).stream(StreamPosition(0, 0)), 60
        )

    assert same(stream(1, 0), stream(1, 3))
    plain = take(PairBatches(store, np.arange(100), BatchConfig(tokens=64), 1).stream(StreamPosition(0, 0)), 60)
    assert any(
        a[1].shape != b[1].shape or not torch.equal(a[1], b[1]) for a, b in zip(stream(1, 0), plain, strict=True)
    )


def test_batches_are_planned_by_the_lengths_after_bpe_dropout() -> None:
    text = [" ".join(["the green witch arrived"] * (1 + i % 7)) for i in range(200)]
    tokenizer = train_tokenizer(text, TokenizerConfig(vocab_size=290))
    dropout, budget = BpeDropout(tokenizer, 0.5), 256
    store = pair_store_from(tokenizer.encode(text), tokenizer.encode(text))
    stream = PairBatches(store, np.arange(200), BatchConfig(tokens=budget), 1, (dropout, dropout))
    for epoch in (0, 1):
        seen = []
        for index, rows in enumerate(stream.plan(epoch)):
            batch = stream.batch(epoch, index)
            assert batch.src.numel() <= budget and batch.tgt_in.numel() <= budget
            decoded = tokenizer.decode([i for i in batch.src[0].tolist() if i not in (PAD, EOS)])
            assert decoded == text[rows[0]]
            seen += rows.tolist()
        assert sorted(seen) == list(range(200))
    assert not np.array_equal(*(stream._texts(np.arange(200), epoch, 0)[0].ids[:50] for epoch in (0, 1)))


def test_batches_can_use_another_collate_function() -> None:
    def labels(src: Ragged, tgt: Ragged, rows: int | None) -> Batch:
        first = Ragged.of([row[:1] for row in tgt.lists()])
        return collate(src, first, rows)

    plain, other = batches(), batches(collate=labels)
    assert (other.size, other.fingerprint) == (N, "memory")
    assert torch.equal(other.batch(0, 1).src, plain.batch(0, 1).src)
    assert other.batch(0, 1).tgt_in.shape[1] == PADDED_LENGTHS[0]
