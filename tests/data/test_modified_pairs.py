"""Modifiers change the texts of an epoch with the probability asked for, as a function of (seed, epoch)."""

from itertools import islice

import numpy as np
import pytest
import torch

from regard.data import epoch_pairs, modified_pairs
from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition
from regard.data.modified_pairs import PairModifier, Pairs
from regard.data.modifiers import Modifier, Noise, RemoveEndPunct, Typos, UpperCase
from regard.data.pair_store import pair_store_from
from regard.text.bpe_dropout import BpeDropout
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer

N, TAGGED = 2_000, 500  # the first pairs are tagged
WORDS = ["the", "green", "witch", "arrived", "and", "sees", "a", "cat", "dog", "cow", "in", "this", "old", "house", "."]
DRAWN = np.random.default_rng(0)
PAIRS = [[" ".join(DRAWN.choice(WORDS, DRAWN.integers(2, 9))) for _ in range(N)] for _ in range(2)]
TOKENIZER = train_tokenizer([*PAIRS[0], *PAIRS[1]], TokenizerConfig(vocab_size=320, symbols=("<bt>",)))
SOURCES = [f"<bt> {text}" if i < TAGGED else text for i, text in enumerate(PAIRS[0])]
STORE = pair_store_from(TOKENIZER.encode(SOURCES), TOKENIZER.encode(PAIRS[1]))


def modifier(*modifiers: Modifier, seed: int = 1, max_tokens: int = 255) -> PairModifier:
    pair = TokenizerPair(TOKENIZER, TOKENIZER)
    return PairModifier(lambda epoch: modifiers, pair, max_tokens, np.array([0, TAGGED]), ("<bt> ", ""), seed)


def texts(pairs: Pairs, rows: np.ndarray) -> list[tuple[str, str]]:  # type: ignore[type-arg]
    sides = [[TOKENIZER.decode(ids) for ids in side(rows).lists()] for side in (pairs.src, pairs.tgt)]
    return list(zip(*sides, strict=True))


def modified(
    *modifiers: Modifier, epoch: int = 0, seed: int = 1, rows: np.ndarray | None = None
) -> list[tuple[str, str]]:  # type: ignore[type-arg]
    return texts(*modifier(*modifiers, seed=seed)(STORE, np.arange(N) if rows is None else rows, epoch))


ORIGINAL = list(zip(SOURCES, PAIRS[1], strict=True))


def upper(pair: tuple[str, str]) -> tuple[str, str]:
    return pair[0].upper().replace("<BT>", "<bt>"), pair[1].upper()


def test_a_modifier_changes_whole_pairs_with_its_probability_and_keeps_tags() -> None:
    changed = modified(UpperCase(probability=0.2))
    assert len(changed) == N
    n = sum(new == upper(old) for new, old in zip(changed, ORIGINAL, strict=True))
    assert all(new in (old, upper(old)) for new, old in zip(changed, ORIGINAL, strict=True))
    assert abs(n - 0.2 * N) < 4 * (N * 0.2 * 0.8) ** 0.5
    assert modified(UpperCase(probability=1)) == list(map(upper, ORIGINAL))


def test_modifiers_are_a_function_of_seed_and_epoch() -> None:
    chosen = (UpperCase(probability=0.3), Typos(probability=0.3), Noise(probability=0.1))
    first = modified(*chosen)
    assert first == modified(*chosen) and first != modified(*chosen, epoch=1) and first != modified(*chosen, seed=2)
    assert modified(UpperCase(probability=0), Noise(probability=0)) == ORIGINAL == modified()


def test_blocks_of_pairs_are_changed_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modified_pairs, "_BLOCK", N // 2)
    pairs, rows = modifier(UpperCase(probability=0.5))(STORE, np.arange(N), 0)
    first, second = np.split(rows >= N, 2)
    assert 0.4 < (first == second).mean() < 0.6 and len(pairs) == N + first.sum() + second.sum()


def test_modifiers_are_applied_one_after_the_other() -> None:
    both = modified(RemoveEndPunct(probability=1), UpperCase(probability=1))
    assert both == [upper(pair) for pair in modified(RemoveEndPunct(probability=1))]


def test_noise_adds_pairs_and_changes_none() -> None:
    changed = modified(Noise(probability=0.1, max_words=3))
    assert changed[:N] == ORIGINAL and abs(len(changed) - 1.1 * N) < 4 * (N * 0.1 * 0.9) ** 0.5
    noise = changed[N:]
    assert all(src.removeprefix("<bt> ") == tgt and tgt for src, tgt in noise) and len(set(noise)) > 0.9 * len(noise)
    tagged = sum(src.startswith("<bt> ") for src, _ in noise)
    assert 0.15 < tagged / len(noise) < 0.35, "noise has the tags of the corpora that it is mixed with"


def test_copies_of_a_pair_are_changed_independently() -> None:
    rows = np.repeat(np.arange(600, 700), 10)
    changed = modified(UpperCase(probability=0.5), rows=rows)
    copies = [changed[i : i + 10] for i in range(0, 1000, 10)]
    assert sum(len(set(group)) == 2 for group in copies) > 90


def test_pairs_that_would_get_too_long_stay_as_they_are() -> None:
    longest = int(max(side.max() for side in STORE.lengths(np.arange(len(STORE)))))
    pairs, rows = modifier(UpperCase(probability=1), max_tokens=longest)(STORE, np.arange(N), 0)
    src, tgt = pairs.lengths(np.arange(len(pairs)))
    assert 0 < (rows < N).sum() < N and max(src[rows].max(), tgt[rows].max()) <= longest


@pytest.mark.parametrize("max_tokens", [0, 1 << 25])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_batches_do_not_depend_on_threads_or_the_start_of_the_stream(
    dropout: float, max_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch_pairs, "_MAX_TOKENS", max_tokens)
    resample = (BpeDropout(TOKENIZER, dropout),) * 2 if dropout else None  # type: ignore[arg-type]
    change = modifier(UpperCase(probability=0.2), Typos(probability=0.2), Noise(probability=0.1))

    def batches(workers: int, start: StreamPosition) -> list[tuple[StreamPosition, torch.Tensor]]:
        config = BatchConfig(tokens=1024, workers=workers)
        stream = PairBatches(STORE, np.arange(400, 900), config, 1, resample, modify=change).stream(start)
        return [(position, batch.src) for position, batch in islice(stream, 30)]

    whole = batches(0, StreamPosition(0, 0))
    assert whole[-1][0].epoch >= 1
    later = batches(3, whole[9][0])[:20]
    assert all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in zip(whole[10:], later, strict=True))


def test_batches_are_planned_by_the_lengths_of_the_changed_texts() -> None:
    change, budget = modifier(UpperCase(probability=0.3)), 512
    stream = PairBatches(STORE, np.arange(N), BatchConfig(tokens=budget), 1, modify=change)
    assert all(stream.batch(0, i).src.numel() <= budget for i in range(len(stream.plan(0))))
    assert sum(len(rows) for rows in stream.plan(0)) == N
