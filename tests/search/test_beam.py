"""Beam search: against exhaustive search, and single steps computed by hand."""

import itertools
import math

import pytest
import torch

from regard.data.batch import collate_sources
from regard.search.beam import BeamSearch
from regard.search.constraints import Constraints
from regard.search.decode import DecodeConfig, decode
from regard.search.length_penalty import normalise_score
from regard.search.slots import Slots
from regard.text.vocab import EOS
from tests.conftest import tiny_model
from tests.search.cases import SOURCES
from tests.search.table_model import VOCAB_SIZE, A, B, C, TableModel, TableState, lecture_example, probabilities


def test_beam_search_finds_the_better_hypothesis_of_the_lecture() -> None:
    [[best]] = decode(lecture_example(), collate_sources([[6]]), DecodeConfig(beam=2, length_penalty=0.0, min_len=3))
    assert best.ids == (A, C, B) and math.exp(best.log_prob) == pytest.approx(0.054)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_a_wide_beam_equals_exhaustive_search(length_penalty: float) -> None:
    """Score every sequence up to the maximum length one by one; a beam that holds them all finds the same best."""
    generator = torch.Generator().manual_seed(4)
    words, max_len = [A, B, C], 3
    table = {}
    for n in range(max_len + 1):
        for prefix in itertools.product(words, repeat=n):
            p = torch.rand(VOCAB_SIZE, generator=generator, dtype=torch.float64)
            p[[i for i in range(VOCAB_SIZE) if i not in (*words, EOS)]] = 0
            table[prefix] = (p / p.sum()).tolist()
    scores = {}
    for n in range(max_len + 1):
        for sequence in itertools.product(words, repeat=n):
            path = [table[sequence[:i]][token] for i, token in enumerate((*sequence, EOS))]
            log_prob = torch.tensor(path, dtype=torch.float64).log().sum().item()
            scores[sequence] = normalise_score(log_prob, n + 1, length_penalty)
    best = sorted(scores, key=lambda s: -scores[s])[:5]
    config = DecodeConfig(beam=50, n_best=5, length_penalty=length_penalty, max_len=max_len)
    [hypotheses] = decode(TableModel(table), collate_sources([[6]]), config)
    assert [h.ids for h in hypotheses] == best
    assert [h.score for h in hypotheses] == pytest.approx([scores[s] for s in best])


def test_three_steps_computed_by_hand() -> None:
    """An end among the k best is finished and its slot filled; an end that ranks lower is dropped."""
    rule = BeamSearch(2, 1, alpha=0.0)
    limits, seeds = torch.tensor([9]), torch.zeros(1, 2, dtype=torch.int64)
    slots = rule.begin(Slots.start(TableState(((), ())), Constraints(), limits, seeds, room=8))

    def advance(*rows: list[float]) -> tuple[list[list[int]], list[list[int]]]:
        nonlocal slots
        slots, step = rule.advance(slots, torch.tensor(rows, dtype=torch.float64).log(), torch.zeros(1, 1), True)
        kept = step.slots[0].tolist()
        return slots.tokens[0, :, 1 : slots.lengths].tolist(), [step.parents[0, kept.index(i)].item() for i in (0, 1)]

    first = probabilities(0.3, 0.2, 0.1, 0.4)
    tokens, parents = advance(first, first)
    assert tokens == [[A], [B]], "B fills the slot of the end"
    assert slots.finished.counts.tolist() == [1]
    assert slots.finished.log_probs[0, 0].exp().item() == pytest.approx(0.4)
    assert parents == [0, 0]
    tokens, parents = advance(probabilities(0.5, 0.1, 0.0, 0.4), probabilities(0.9, 0.0, 0.0, 0.1))
    assert slots.finished.counts.tolist() == [1], "0.3 · 0.4 is third, after 0.2 · 0.9 and 0.3 · 0.5"
    assert tokens == [[B, A], [A, A]] and parents == [1, 0]
    rows = [probabilities(0.3, 0.0, 0.0, 0.7), probabilities(0.2, 0.2, 0.2, 0.4)]
    slots, _ = rule.advance(slots, torch.tensor(rows, dtype=torch.float64).log(), torch.zeros(1, 1), True)
    assert slots.finished.counts.tolist() == [3]
    assert not (slots.log_probs > -torch.inf).any(), "k have finished, so no slot is filled any more"
    assert slots.done.tolist() == [True]


def test_search_continues_while_an_unfinished_hypothesis_can_get_into_the_n_best() -> None:
    model = TableModel(
        {
            (): probabilities(0.3, 0.2, 0.0, 0.5),
            (A,): probabilities(0.0, 0.0, 0.7, 0.3),
            (B,): probabilities(0.0, 0.0, 0.0, 1.0),
            (A, C): probabilities(0.0, 0.0, 0.0, 1.0),
        }
    )
    [hypotheses] = decode(model, collate_sources([[6]]), DecodeConfig(beam=2, n_best=2, length_penalty=0.0))
    assert [h.ids for h in hypotheses] == [(), (A, C)], "0.21 finishes third, but is better than 0.2"


def test_the_n_best_are_distinct_and_sorted() -> None:
    for row in decode(tiny_model(6), collate_sources(SOURCES), DecodeConfig(beam=6, n_best=6)):
        assert len({h.ids for h in row}) == len(row) == 6
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)
