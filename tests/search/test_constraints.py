"""Constraints: forbidden and forced tokens, alone and in a search."""

import itertools
from dataclasses import replace

import pytest
import torch

from regard.data.batch import collate_sources
from regard.search.candidates import candidates
from regard.search.constraints import Constraint, Constraints, MaxLength, MinLength, NoRepeatNgram, Prefix, Suppress
from regard.search.decode import DecodeConfig, decode
from regard.search.greedy import greedy_choice
from regard.search.slots import Slots
from regard.text.vocab import BOS, EOS, PAD
from tests.conftest import VOCAB, tiny_model
from tests.search.cases import SOURCES
from tests.search.table_model import TableState

CPU = torch.device("cpu")
TOKENS = torch.tensor([[BOS, 7, 8, 7, 0], [BOS, 8, 8, 9, 0]])
LENGTHS = torch.tensor([4, 4])


def forbidden_by(constraint: Constraint, tokens: torch.Tensor, lengths: torch.Tensor) -> list[list[int]]:
    log_probs = constraint(torch.zeros(len(tokens), VOCAB), tokens, lengths)
    return [[i for i in row.isinf().nonzero().flatten().tolist() if i != PAD] for row in log_probs]


def test_ngrams_that_would_repeat_are_forbidden() -> None:
    assert forbidden_by(NoRepeatNgram(2), TOKENS, LENGTHS) == [[8], []]
    trigrams = torch.tensor([[BOS, 7, 8, 9, 7, 8], [BOS, 7, 8, 9, 6, 8]])
    assert forbidden_by(NoRepeatNgram(3), trigrams, torch.tensor([6, 6])) == [[9], []]
    assert forbidden_by(NoRepeatNgram(1), TOKENS, LENGTHS) == [[7, 8], [8, 9]]
    shorter = forbidden_by(NoRepeatNgram(2), TOKENS, torch.tensor([2, 3]))
    assert shorter == [[], [8]], "tokens after the end of a hypothesis do not count"


def test_eos_is_forbidden_before_the_minimum_and_forced_at_the_maximum_length() -> None:
    assert forbidden_by(MinLength(4), TOKENS, LENGTHS) == [[EOS], [EOS]]
    assert forbidden_by(MinLength(3), TOKENS, torch.tensor([4, 3])) == [[], [EOS]]
    assert MaxLength(torch.tensor([3, 4]))(LENGTHS).tolist() == [EOS, -1]


def test_a_forced_token_overrules_a_forbidden_one() -> None:
    prefix = Prefix.of([[1, 2, 3, 9], []], CPU)
    assert prefix(LENGTHS).tolist() == [9, -1]
    state, seeds = TableState(((), ())), torch.zeros(2, 1, dtype=torch.int64)
    constraints = Constraints((Suppress((9,)),), (MaxLength(torch.tensor([9, 9])), prefix))
    slots = replace(Slots.start(state, constraints, torch.tensor([9, 9]), seeds, room=4), lengths=LENGTHS)
    log_probs = torch.arange(2.0 * VOCAB).view(2, VOCAB)
    top, ids = candidates(slots, log_probs.clone(), torch.zeros(1, 1), lambda allowed, _: allowed.topk(3).indices)
    assert ids[0, 0] == 9 and top[0].tolist() == [9.0, -torch.inf, -torch.inf]
    assert ids[1].tolist() == [VOCAB - 1, VOCAB - 2, VOCAB - 3] and top[1, 0] == log_probs[1, -1]
    constraints = Constraints((Suppress(tuple(range(VOCAB))),))
    top, ids = candidates(replace(slots, constraints=constraints), log_probs.clone(), torch.zeros(1, 1), greedy_choice)
    assert ids.tolist() == [[EOS], [EOS]] and top.tolist() == log_probs[:, EOS : EOS + 1].tolist()


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
