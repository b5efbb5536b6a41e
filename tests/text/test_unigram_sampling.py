"""Unigram sampling: the distribution, and that it is a function of the text and the seed alone."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import product

import pytest

from regard.errors import UserError
from regard.text.ragged import Ragged
from regard.text.resampling import Resampler
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig, train_tokenizer
from regard.text.unigram_sampling import UnigramSampler
from regard.text.vocab import WORD_START
from regard.train.recipe import Recipe
from regard.train.tasks import get_task

TEXT = ["the green witch arrived", "la sorcière verte est arrivée", "the cat sees the witch", "le chat voit"] * 20
ODD = ["naïve 日本語 🙂", "Ω a\u200db", "<0x41> <s> x<0x", "zzqq thewitch\u0301 greenwitcharrived"]


LETTERS = ["".join(word) for word in product("abc", repeat=5)]
"""All words of five letters: their pieces are all short, so that a word has many segmentations."""


def trained(kind: str = "unigram", texts: Sequence[str] = TEXT, **options: object) -> SentencePieceTokenizer:
    config = TokenizerConfig.parse({"kind": kind, "vocab_size": 320, **options})
    tokenizer = train_tokenizer(texts, config)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


def sample(sampler: Resampler, ids: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
    return sampler(Ragged.of(ids), seed).lists()


def enumerated(tokenizer: SentencePieceTokenizer, word: str, alpha: float) -> dict[tuple[str, ...], float]:
    """Return the probability of every segmentation of a word of known characters."""
    pieces = tokenizer.piece_scores()
    weights: dict[tuple[str, ...], float] = {}

    def extend(rest: str, taken: tuple[str, ...], score: float) -> None:
        if not rest:
            weights[taken] = math.exp(alpha * score)
        for n in range(1, len(rest) + 1):
            if (piece := rest[:n]) in pieces:
                extend(rest[n:], (*taken, piece), score + pieces[piece][1])

    extend(WORD_START + word, (), 0.0)
    total = sum(weights.values())
    return {pieces: weight / total for pieces, weight in weights.items()}


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("word", ["ab", "abcab", "ccbacaba"])
def test_segmentations_have_the_probabilities_of_the_model(word: str, alpha: float) -> None:
    """Pearson's χ² of 20,000 samples; segmentations that are expected less than ten times are counted together."""
    tokenizer, n = trained(texts=LETTERS, vocab_size=300), 20_000
    expected = enumerated(tokenizer, word, alpha)
    assert len(expected) > len(word)
    samples = sample(UnigramSampler(tokenizer, alpha), tokenizer.encode([word]) * n, seed=1)
    counts = Counter(tuple(tokenizer.tokens(ids)) for ids in samples)
    assert counts.keys() <= expected.keys()
    cells = [(counts[pieces], n * p) for pieces, p in expected.items() if n * p >= 10]
    rare = sum(n * p for p in expected.values() if n * p < 10)
    if rare:
        cells.append((n - sum(count for count, _ in cells), rare))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells if mean >= 1)
    freedom = len(cells) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 8, "about 4 standard deviations above its mean"


def test_a_large_alpha_leaves_the_segmentation_of_sentencepiece() -> None:
    tokenizer = trained()
    ids = tokenizer.encode([*TEXT[:4], *ODD])
    for seed in range(3):
        assert sample(UnigramSampler(tokenizer, 1000.0), ids, seed) == ids


def test_samples_depend_on_the_seed_alone_and_keep_the_text() -> None:
    tokenizer, texts = trained(), [*TEXT, *ODD]
    ids = tokenizer.encode(texts)
    samples = sample(UnigramSampler(tokenizer, 0.1), ids, seed=7)
    assert sample(UnigramSampler(tokenizer, 0.1), ids, seed=7) == samples
    assert samples != ids and sample(UnigramSampler(tokenizer, 0.1), ids, seed=8) != samples
    assert [tokenizer.decode(row) for row in samples] == texts


def test_a_long_word_keeps_its_segmentation() -> None:
    tokenizer = trained()
    ids = {piece: i for piece, (i, _) in tokenizer.piece_scores().items()}
    for characters in (40, 41):
        row = [ids[character] for character in WORD_START + ("witch" * 9)[:characters]]  # any segmentation is kept
        assert (sample(UnigramSampler(tokenizer, 0.01), [row], seed=1) == [row]) == (characters > 40)


def test_samples_are_the_same_in_another_process() -> None:
    code = (
        "from regard.text.tokenizer import *; from regard.text.unigram_sampling import UnigramSampler\n"
        "config = TokenizerConfig(kind='unigram', vocab_size=280)\n"
        "t = train_tokenizer(['the green witch arrived', 'the witch'] * 20, config)\n"
        "from regard.text.ragged import Ragged\n"
        "print(UnigramSampler(t, 0.1)(Ragged.of(t.encode(['the green witch arrived'] * 9)), 5).lists())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout != ""


def test_other_tokenizers_are_refused() -> None:
    with pytest.raises(UserError, match="kind unigram"):
        UnigramSampler(trained("bpe"), 0.1)
    with pytest.raises(UserError, match="byte_fallback"):
        UnigramSampler(trained(byte_fallback=False, vocab_size=60), 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": {"alpha": 0.1}}, "tokenizer.alpha needs tokenizer.kind: unigram"),
        ({"tokenizer": {"alpha": 0.1, "kind": "unigram", "byte_fallback": False}}, "byte_fallback: true"),
        (
            {"tokenizer": {"alpha": 0.1, "kind": "unigram"}, "task": "text", "model": {"kind": "decoder"}},
            "only for task",
        ),
        ({"tokenizer": {"alpha": -0.1}}, "tokenizer.alpha"),
        ({"tokenizer": {"alpha": 1e9}}, "tokenizer.alpha"),
        (
            {"tokenizer": {"alpha": 0.1, "kind": "unigram"}, "model": {"positions": "learned", "max_len": 1024}},
            "may make sentences longer",
        ),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe = Recipe.parse(options)
        get_task(recipe.task).check(recipe)


def test_symbols_stay_whole() -> None:
    tokenizer = trained(symbols=(">>fra<<",))
    [ids], [tag] = tokenizer.encode([">>fra<< the green witch >>fra<<"]), tokenizer.encode([">>fra<<"])
    for seed in range(20):
        [sampled] = sample(UnigramSampler(tokenizer, 0.1), [ids], seed)
        assert sampled[0] == sampled[-1] == tag[0] and sampled.count(tag[0]) == 2
        assert tokenizer.decode(sampled) == ">>fra<< the green witch >>fra<<"
