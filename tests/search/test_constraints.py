"""Constraints: forbidden and forced tokens, alone and in a search."""

import itertools

import pytest
import torch

from regard.data.batch import collate_sources
from regard.search.constraints import Constraints, MaxLength, MinLength, NoRepeatNgram, Prefix, Suppress
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import BOS, EOS
from tests.conftest import VOCAB, tiny_model
from tests.search.cases import SOURCES

CPU = torch.device("cpu")
LOG_PROBS = torch.zeros(2, VOCAB)
TOKENS = torch.tensor([[BOS, 7, 8, 7], [BOS, 8, 8, 9]])


def test_ngrams_that_would_repeat_are_forbidden() -> None:
    bigrams = NoRepeatNgram(2)(LOG_PROBS, TOKENS)
    assert bigrams[0].isinf().nonzero().flatten().tolist() == [8]
    assert bigrams[1].isinf().sum() == 0
    trigrams = NoRepeatNgram(3)(LOG_PROBS, torch.tensor([[BOS, 7, 8, 9, 7, 8], [BOS, 7, 8, 9, 6, 8]]))
    assert trigrams[0].isinf().nonzero().flatten().tolist() == [9]
    assert trigrams[1].isinf().sum() == 0


def test_eos_is_forbidden_before_the_minimum_and_forced_at_the_maximum_length() -> None:
    assert MinLength(4)(LOG_PROBS, TOKENS)[:, EOS].isinf().all()
    assert not MinLength(3)(LOG_PROBS, TOKENS).isinf().any()
    assert MaxLength(torch.tensor([3, 4]))(TOKENS).tolist() == [EOS, -1]


def test_a_forced_token_overrules_a_forbidden_one() -> None:
    prefix = Prefix.of([[1, 2, 3, 9], []], CPU)
    assert prefix(TOKENS).tolist() == [9, -1]
    allowed = Constraints((Suppress((9,)),), (prefix,))(LOG_PROBS, TOKENS)
    assert (allowed[0] == 0).nonzero().flatten().tolist() == [9]
    assert allowed[1, 9].isinf()


@pytest.mark.parametrize("beam", [1, 4])
def test_a_prefix_overrules_all_other_constraints(beam: int) -> None:
    prefixes = [[20, 20, 20, 20], [], [21], [22, 23], [24, 24]]
    config = DecodeConfig(beam=beam, no_repeat_ngram=1, max_len=3)
    results = decode(tiny_model(8), collate_sources(SOURCES), config, prefixes)
    for prefix, [hypothesis] in zip(prefixes, results, strict=True):
        assert list(hypothesis.ids[: len(prefix)]) == prefix


@pytest.mark.parametrize("beam", [1, 3])
def test_hypotheses_have_the_minimum_and_at_most_the_maximum_length(beam: int) -> None:
    model, batch = tiny_model(9), collate_sources(SOURCES)
    long = decode(model, batch, DecodeConfig(beam=beam, min_len=12, max_len=14))
    assert all(12 <= len(row[0].ids) <= 14 for row in long)
    short = decode(model, batch, DecodeConfig(beam=beam, max_len=2))
    assert all(len(row[0].ids) <= 2 for row in short)


def test_no_bigram_occurs_twice_in_a_hypothesis() -> None:
    config = DecodeConfig(beam=3, min_len=15, max_len=30, no_repeat_ngram=2)
    for row in decode(tiny_model(10), collate_sources(SOURCES), config):
        bigrams = list(itertools.pairwise(row[0].ids))
        assert len(bigrams) == len(set(bigrams))


@pytest.mark.parametrize("beam", [1, 3])
def test_a_hypothesis_ends_when_everything_is_forbidden(beam: int) -> None:
    config = DecodeConfig(beam=beam, no_repeat_ngram=1, min_len=60)
    for [hypothesis] in decode(tiny_model(), collate_sources(SOURCES), config):
        assert len(set(hypothesis.ids)) == len(hypothesis.ids) <= VOCAB
