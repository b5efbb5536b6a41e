"""The length penalty is chosen by the BLEU that it gives on the validation sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.builtin.toy_tasks import toy_pairs
from regard.evaluate.validation import ValidConfig
from regard.pipelines.translation import Candidate, Translation
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from regard.train.auto_recipe import AutoRecipe
from regard.train.length_penalty_choice import best_text, choose_length_penalty
from regard.train.log import RunLog
from regard.train.tasks.translation import TranslationValidator
from tests.conftest import tiny_model

SOURCES = [source for source, _ in toy_pairs("reverse", 120, seed=0, lengths=(3, 8), n_letters=8)]
MODEL = tiny_model()
LETTERS = train_tokenizer(["a b c d e f g h"], TokenizerConfig(kind="word", vocab_size=40))


def validator(references: list[str], decode: DecodeConfig) -> TranslationValidator:
    texts = list(zip(SOURCES, references, strict=False))
    tokenizers = TokenizerPair(LETTERS, LETTERS)
    store: Any = None
    return TranslationValidator(np.arange(0), texts, tokenizers, ValidConfig(tokenize="none"), decode, store, 100)


SHORT = Candidate("a b c d", 0.0, (), log_prob=-2.0, n_tokens=3)
LONG = Candidate("a b c d e f g h", 0.0, (), log_prob=-3.4, n_tokens=9)


def test_a_larger_penalty_prefers_longer_texts() -> None:
    assert best_text([SHORT, LONG], 0.6) == SHORT.text and best_text([SHORT, LONG], 1.4) == LONG.text


@pytest.mark.parametrize(("reference", "expected"), [(SHORT.text, 0.6), (LONG.text, 1.0)])
def test_the_smallest_penalty_with_the_best_score_is_chosen(
    reference: str, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translations = [Translation(source, (), (SHORT, LONG)) for source in SOURCES]
    monkeypatch.setattr(Translator, "stream", lambda self, lines: iter(translations[: len(list(lines))]))
    decode = DecodeConfig(beam=4, length_penalty=0.8, no_repeat_ngram=3)
    with RunLog(tmp_path) as log:
        chosen = choose_length_penalty(validator([reference] * len(SOURCES), decode), MODEL, torch.device("cpu"), log)
    assert chosen == decode.model_copy(update={"length_penalty": expected})


def test_few_sentences_or_greedy_search_choose_nothing(tmp_path: Path) -> None:
    with RunLog(tmp_path) as log:
        for references, decode in ((["a"] * 5, DecodeConfig()), (["a"] * 120, DecodeConfig(beam=1))):
            assert choose_length_penalty(validator(references, decode), MODEL, torch.device("cpu"), log) is decode


def test_a_penalty_that_the_user_sets_is_kept() -> None:
    assert AutoRecipe().load().valid.tune_length_penalty
    assert not AutoRecipe(settings=["decode.length_penalty=0.8"]).load().valid.tune_length_penalty
