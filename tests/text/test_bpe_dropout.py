"""BPE-dropout: the distribution, and that it is a function of the text and the seed alone."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from regard.text import bpe_dropout
from regard.text.bpe_dropout import BpeDropout
from regard.text.bpe_segmenter import BpeSegmenter
from regard.text.key_index import random_bits
from regard.text.ragged import Ragged
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig, train_tokenizer
from regard.text.vocab import WORD_START

TEXT = ["the green witch arrived", "la sorcière verte est arrivée", "the cat sees the witch", "le chat voit"] * 20
ODD = [
    "naïve 日本語 🙂",
    "Ω a\u200db",
    "<0x41> <s> x<0x",
    "zzqq thewitch\u0301 greenwitcharrived",
    "the witch" + "es" * 30,
]


def trained(**options: object) -> SentencePieceTokenizer:
    tokenizer = train_tokenizer(TEXT, TokenizerConfig.parse({"vocab_size": 320, **options}))
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


def sample(dropout: BpeDropout, ids: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
    return dropout(Ragged.of(ids), seed).lists()


def enumerated(tokenizer: SentencePieceTokenizer, word: str, p: float) -> dict[tuple[str, ...], float]:
    """Return the probability of every segmentation: the best merge that is not left out is made, else it ends."""
    scores, result = tokenizer.piece_scores(), Counter[tuple[str, ...]]()

    def extend(pieces: tuple[str, ...], probability: float) -> None:
        joined = [left + right for left, right in pairwise(pieces)]
        merges = sorted((-scores[piece][1], i) for i, piece in enumerate(joined) if piece in scores)
        for _, i in merges:
            extend((*pieces[:i], joined[i], *pieces[i + 2 :]), probability * (1 - p))
            probability *= p
        result[pieces] += probability  # type: ignore[assignment]

    extend(tuple(WORD_START + word), 1.0)
    return dict(result)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_segmentations_have_the_probabilities_of_the_algorithm(p: float) -> None:
    """Pearson's χ² of 20,000 samples; segmentations that are expected less than ten times are counted together."""
    tokenizer, n = trained(), 20_000
    dropout, expected = BpeDropout(tokenizer, p), enumerated(tokenizer, "witch", p)
    symbols = [tokenizer.piece_scores()[character][0] for character in f"{WORD_START}witch"]
    samples = dropout.segment(np.array([symbols] * n), random_bits(np.arange(n)))
    counts = Counter(tuple(tokenizer.tokens(row[row >= 0])) for row in samples)
    assert counts.keys() <= expected.keys() and len(expected) > 10
    cells = [(counts[pieces], n * q) for pieces, q in expected.items() if n * q >= 10]
    rare = sum(n * q for q in expected.values() if n * q < 10)
    cells.append((n - sum(count for count, _ in cells), rare))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells if mean >= 1)
    freedom = len(cells) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 8, "about 4 standard deviations above its mean"


def test_probability_zero_is_the_segmentation_of_sentencepiece() -> None:
    tokenizer = trained()
    ids = tokenizer.encode([*TEXT[:4], *ODD, "the witchcraft 日本 verte", "arrivée-arrived"])
    assert sample(BpeDropout(tokenizer, 0.0), ids, seed=3) == ids
    for word in " ".join(TEXT[:4]).split():
        assert BpeSegmenter(tokenizer).segment(word) == tokenizer.encode([word])[0]


def test_samples_depend_on_the_seed_alone_and_keep_the_text() -> None:
    tokenizer = trained()
    ids = tokenizer.encode([*TEXT, *ODD])
    resampled = sample(BpeDropout(tokenizer, 0.5), ids, seed=7)
    assert sample(BpeDropout(tokenizer, 0.5), ids, seed=7) == resampled
    assert resampled != ids and sample(BpeDropout(tokenizer, 0.5), ids, seed=8) != resampled
    assert [tokenizer.decode(row) for row in resampled] == [*TEXT, *ODD]
    characters = sample(BpeDropout(tokenizer, 1.0), ids[:1], seed=1)
    assert tokenizer.tokens(characters[0]) == list("▁the▁green▁witch▁arrived")


def test_what_was_segmented_before_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained()
    ids = tokenizer.encode([*TEXT, *ODD])
    fresh = [sample(BpeDropout(tokenizer, 0.3), ids, seed) for seed in range(20)]
    used = BpeDropout(tokenizer, 0.3)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda seed: sample(used, ids, seed), range(20))) == fresh
    monkeypatch.setattr(bpe_dropout, "_MAX_REMEMBERED", 100)  # a tenth of what these texts need
    assert [sample(used, ids, seed) for seed in range(20)] == fresh


def test_empty_texts_stay_empty() -> None:
    dropout = BpeDropout(trained(), 0.5)
    assert sample(dropout, [[], []], seed=1) == [[], []]
    ids = trained().encode(["the witch"])[0]
    lengths = [len(row) for row in sample(dropout, [[], ids, []], seed=1)]
    assert lengths[0] == lengths[2] == 0 < lengths[1]


def test_samples_are_the_same_in_another_process() -> None:
    code = (
        "from regard.text.tokenizer import *; from regard.text.bpe_dropout import BpeDropout\n"
        "from regard.text.ragged import Ragged\n"
        "t = train_tokenizer(['the green witch arrived'] * 20, TokenizerConfig(vocab_size=290))\n"
        "print(BpeDropout(t, 0.5)(Ragged.of(t.encode(['the green witch arrived'] * 9)), 5).lists())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout != ""


def test_symbols_stay_whole() -> None:
    tokenizer = trained(symbols=(">>fra<<",))
    [ids], [tag] = tokenizer.encode([">>fra<< the green witch >>fra<<"]), tokenizer.encode([">>fra<<"])
    for seed in range(20):
        [sampled] = sample(BpeDropout(tokenizer, 0.9), [ids], seed)
        assert sampled[0] == sampled[-1] == tag[0] and sampled.count(tag[0]) == 2
        assert tokenizer.decode(sampled) == ">>fra<< the green witch >>fra<<"
    assert BpeSegmenter(tokenizer).segment(">>fra<<") == tag
