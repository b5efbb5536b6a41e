"""Relations between searches, on random models and on tables of probabilities."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.data.batch import Batch, collate_sources
from regard.errors import UserError
from regard.search.beam import Beam, FinishedHypotheses, advance
from regard.search.constraints import Constraints, MaxLength, MinLength, NoRepeatNgram, Prefix, Suppress
from regard.search.decode import DecodeConfig, decode
from regard.search.ensemble import Ensemble
from regard.search.length_penalty import normalise_score
from regard.search.protocols import Hypothesis
from regard.search.sampling import SamplingConfig, filter_probabilities
from regard.text.vocab import BOS, EOS, PAD
from tests.conftest import VOCAB, tiny_model

SOURCES = [[7, 8, 9], [10], [11, 12, 13, 14, 15, 16], [9, 8, 7, 6], [30, 31]]
CONFIGS = [
    DecodeConfig(beam=1),
    DecodeConfig(beam=5, n_best=3),
    DecodeConfig(beam=4, no_repeat_ngram=2, min_len=3, max_len=9),
    DecodeConfig(n_best=2, sampling=SamplingConfig(temperature=0.7, top_k=10, top_p=0.9, seed=3)),
]


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert [h.score for h in row] == pytest.approx([h.score for h in other], abs=1e-5)


@dataclass(frozen=True)
class TableState:
    """The tokens read so far, a row a hypothesis."""

    prefixes: tuple[tuple[int, ...], ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "TableState":
        return TableState(tuple(self.prefixes[i] for i in rows.tolist()))


class Table:
    """A model that looks up p(next | tokens so far); what is not in the table is uniform."""

    def max_target_len(self, batch: Batch) -> None:
        return None

    def __init__(self, table: dict[tuple[int, ...], Sequence[float]], n_vocab: int) -> None:
        self.table = {key: torch.tensor(p, dtype=torch.float64) for key, p in table.items()}
        self.uniform = torch.full((n_vocab,), 1 / n_vocab, dtype=torch.float64)

    def start(self, batch: Batch) -> TableState:
        return TableState(((),) * batch.size)

    def step(self, state: TableState, ids: Tensor) -> tuple[Tensor, TableState]:
        prefixes = tuple((*p, i) for p, i in zip(state.prefixes, ids.tolist(), strict=True))
        rows = [self.table.get(p[1:], self.uniform) for p in prefixes]  # without BOS
        return torch.stack(rows).log(), TableState(prefixes)


A, B, C = 6, 7, 8


def letters(a: float, b: float, c: float, end: float) -> list[float]:
    return [0, 0, 0, end, 0, 0, a, b, c]


def lecture_table() -> Table:
    """The lecture's four steps; along A, C the later probabilities differ from those along A, B."""
    return Table(
        {
            (): letters(0.5, 0.2, 0.2, 0.1),
            (A,): letters(0.1, 0.4, 0.3, 0.2),
            (A, B): letters(0.2, 0.2, 0.4, 0.2),
            (A, C): letters(0.1, 0.6, 0.2, 0.1),
            (A, B, C): letters(0.0, 0.2, 0.2, 0.6),
            (A, C, B): letters(0.1, 0.2, 0.1, 0.6),
        },
        n_vocab=9,
    )


def test_beam_finds_what_greedy_misses_in_the_lecture() -> None:
    batch = collate_sources([[6]])
    [[greedy]] = decode(lecture_table(), batch, DecodeConfig(beam=1, length_penalty=0.0))
    [[best]] = decode(lecture_table(), batch, DecodeConfig(beam=2, length_penalty=0.0, min_len=3))
    assert greedy.ids == (A, B, C) and torch.tensor(greedy.log_prob).exp().item() == pytest.approx(0.048)
    assert best.ids == (A, C, B) and torch.tensor(best.log_prob).exp().item() == pytest.approx(0.054)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_a_wide_beam_is_exhaustive_search(length_penalty: float) -> None:
    """Every sequence up to the limit scored one by one, and the beam that holds them all, agree."""
    generator = torch.Generator().manual_seed(4)
    words, limit = [6, 7, 8], 3
    table = {}
    for n in range(limit + 1):
        for prefix in itertools.product(words, repeat=n):
            p = torch.rand(9, generator=generator, dtype=torch.float64)
            p[[0, 1, 2, 4, 5]] = 0
            table[prefix] = (p / p.sum()).tolist()
    scores = {}
    for n in range(limit + 1):
        for sequence in itertools.product(words, repeat=n):
            path = [table[sequence[:i]][token] for i, token in enumerate((*sequence, EOS))]
            log_prob = torch.tensor(path, dtype=torch.float64).log().sum().item()
            scores[sequence] = normalise_score(log_prob, n + 1, length_penalty)
    best = sorted(scores, key=lambda s: -scores[s])[:5]
    config = DecodeConfig(beam=50, n_best=5, length_penalty=length_penalty, max_len=limit)
    [found] = decode(Table(table, 9), collate_sources([[6]]), config)
    assert [h.ids for h in found] == best
    assert [h.score for h in found] == pytest.approx([scores[s] for s in best])


def test_one_step_of_the_beam_by_hand() -> None:
    """An end among the k best is put aside and its place filled; one behind them is not taken."""
    beam, ended = Beam.start(1, 2, torch.device("cpu")), FinishedHypotheses.none(1, 2, torch.device("cpu"))
    first = torch.tensor([letters(0.3, 0.2, 0.1, 0.4)] * 2, dtype=torch.float64).log()
    beam, ended, parents, _ = advance(beam, ended, first, alpha=0.0)
    assert beam.tokens[0, :, 1].tolist() == [A, B], "B moves up into the place of the end"
    assert ended.counts.tolist() == [1] and ended.log_probs[0, 0].exp().item() == pytest.approx(0.4)
    assert parents.tolist() == [[0, 0]]
    second = torch.tensor([letters(0.5, 0.1, 0.0, 0.4), letters(0.9, 0.0, 0.0, 0.1)], dtype=torch.float64).log()
    beam, ended, parents, _ = advance(beam, ended, second, alpha=0.0)
    assert ended.counts.tolist() == [1], "0.3 · 0.4 is third, behind 0.2 · 0.9 and 0.3 · 0.5"
    assert beam.tokens[0, :, 1:].tolist() == [[B, A], [A, A]] and parents.tolist() == [[1, 0]]
    third = torch.tensor([letters(0.3, 0.0, 0.0, 0.7), letters(0.2, 0.2, 0.2, 0.4)], dtype=torch.float64).log()
    beam, ended, *_ = advance(beam, ended, third, alpha=0.0)
    assert ended.counts.tolist() == [3]
    assert not (beam.log_probs > -torch.inf).any(), "k have ended: nothing moves up any more"


def test_search_goes_on_until_none_alive_can_come_among_the_n_best() -> None:
    table = Table(
        {
            (): letters(0.3, 0.2, 0.0, 0.5),
            (A,): letters(0.0, 0.0, 0.7, 0.3),
            (B,): letters(0.0, 0.0, 0.0, 1.0),
            (A, C): letters(0.0, 0.0, 0.0, 1.0),
        },
        9,
    )
    [found] = decode(table, collate_sources([[6]]), DecodeConfig(beam=2, n_best=2, length_penalty=0.0))
    assert [h.ids for h in found] == [(), (A, C)], "0.21 comes after two have ended, and before 0.2"


@pytest.mark.parametrize("seed", range(5))
def test_beam_of_one_is_greedy(seed: int) -> None:
    from regard.search.beam import beam_search
    from regard.search.decode import _constraints, length_limits

    model, batch = tiny_model(seed), collate_sources(SOURCES)
    config = DecodeConfig(beam=1)
    limits = length_limits(batch, config)
    beam = beam_search(model, batch, _constraints(config, limits, None), limits, 1, 1, config.length_penalty)
    assert_same(beam, decode(model, batch, config))


@pytest.mark.parametrize("config", CONFIGS)
def test_a_sentence_alone_is_the_same_as_in_any_batch(config: DecodeConfig) -> None:
    model = tiny_model(1)
    together = decode(model, collate_sources(SOURCES), config)
    for source, expected in zip(SOURCES, together, strict=True):
        assert_same(decode(model, collate_sources([source]), config), [expected])
    turned = decode(model, collate_sources(SOURCES[::-1]), config)
    assert_same(turned[::-1], together)


class Uncached:
    """The same model, fed the whole prefix at every step."""

    def max_target_len(self, batch: Batch) -> None:
        return None

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def start(self, batch: Batch) -> "Whole":
        return Whole(batch.src, torch.empty(batch.size, 0, dtype=torch.int64))

    def step(self, state: "Whole", ids: Tensor) -> tuple[Tensor, "Whole"]:
        tokens = torch.cat([state.tokens, ids[:, None]], dim=1)
        padded = torch.cat([tokens, torch.full_like(ids[:, None], PAD)], dim=1)
        log_probs = self.model(Batch.of(state.src, padded))[:, -1].log_softmax(-1)
        return log_probs, Whole(state.src, tokens)


@dataclass(frozen=True)
class Whole:
    src: Tensor
    tokens: Tensor

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "Whole":
        return Whole(self.src[rows], self.tokens[rows])


@pytest.mark.parametrize("config", CONFIGS)
def test_cached_is_uncached(config: DecodeConfig) -> None:
    model, batch = tiny_model(2), collate_sources(SOURCES)
    assert_same(decode(model, batch, config), decode(Uncached(model), batch, config))


@pytest.mark.parametrize("config", CONFIGS)
def test_an_ensemble_of_one_or_of_twins_is_the_model(config: DecodeConfig) -> None:
    model, batch = tiny_model(3), collate_sources(SOURCES)
    expected = decode(model, batch, config)
    assert_same(decode(Ensemble([model]), batch, config), expected)
    assert_same(decode(Ensemble([model, model]), batch, config), expected)


def test_an_ensemble_averages_probabilities() -> None:
    members = [tiny_model(4), tiny_model(5)]
    batch, ids = collate_sources([[7, 8]]), torch.tensor([BOS])
    ensemble = Ensemble(members)
    log_probs, _ = ensemble.step(ensemble.start(batch), ids)
    each = [member.step(member.start(batch), ids)[0].exp() for member in members]
    torch.testing.assert_close(log_probs.exp(), (each[0] + each[1]) / 2)


def test_n_best_are_distinct_and_in_order() -> None:
    for row in decode(tiny_model(6), collate_sources(SOURCES), DecodeConfig(beam=6, n_best=6)):
        assert len({h.ids for h in row}) == len(row) == 6
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)


@pytest.mark.parametrize("config", CONFIGS)
def test_scores_are_those_of_the_model(config: DecodeConfig) -> None:
    model = tiny_model(7)
    for source, row in zip(SOURCES, decode(model, collate_sources(SOURCES), config), strict=True):
        for hypothesis in row:
            tgt = torch.tensor([[BOS, *hypothesis.ids, EOS]])
            src = collate_sources([source]).src
            log_probs = model(Batch.of(src, tgt)).log_softmax(-1)
            expected = log_probs[0].gather(1, tgt[0, 1:, None]).sum().item()
            assert hypothesis.log_prob == pytest.approx(expected, abs=1e-4)
            assert hypothesis.score == pytest.approx(normalise_score(expected, tgt.shape[1] - 1, 0.6), abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_forced_prefix_is_kept_even_against_the_other_constraints(beam: int) -> None:
    prefixes = [[20, 20, 20, 20], [], [21], [22, 23], [24, 24]]
    config = DecodeConfig(beam=beam, no_repeat_ngram=1, max_len=3)
    found = decode(tiny_model(8), collate_sources(SOURCES), config, prefixes)
    for prefix, [hypothesis] in zip(prefixes, found, strict=True):
        assert list(hypothesis.ids[: len(prefix)]) == prefix


def test_lengths_are_kept() -> None:
    model, batch = tiny_model(9), collate_sources(SOURCES)
    for beam in (1, 3):
        long = decode(model, batch, DecodeConfig(beam=beam, min_len=12, max_len=14))
        assert all(12 <= len(row[0].ids) <= 14 for row in long)
        short = decode(model, batch, DecodeConfig(beam=beam, max_len=2))
        assert all(len(row[0].ids) <= 2 for row in short)


def test_no_ngram_occurs_twice() -> None:
    config = DecodeConfig(beam=3, min_len=15, max_len=30, no_repeat_ngram=2)
    for row in decode(tiny_model(10), collate_sources(SOURCES), config):
        pairs = list(itertools.pairwise(row[0].ids))
        assert len(pairs) == len(set(pairs))


def test_constraints_by_hand() -> None:
    log_probs = torch.zeros(2, VOCAB)
    tokens = torch.tensor([[BOS, 7, 8, 7], [BOS, 8, 8, 9]])
    blocked = NoRepeatNgram(2)(log_probs, tokens)
    assert blocked[0].isinf().nonzero().flatten().tolist() == [8]
    assert blocked[1].isinf().sum() == 0
    triples = NoRepeatNgram(3)(log_probs, torch.tensor([[BOS, 7, 8, 9, 7, 8], [BOS, 7, 8, 9, 6, 8]]))
    assert triples[0].isinf().nonzero().flatten().tolist() == [9]
    assert triples[1].isinf().sum() == 0
    assert MinLength(4)(log_probs, tokens)[:, EOS].isinf().all()
    assert not MinLength(3)(log_probs, tokens).isinf().any()
    assert MaxLength(torch.tensor([3, 4]))(tokens).tolist() == [EOS, -1]
    assert Prefix.of([[1, 2, 3, 9], []], torch.device("cpu"))(tokens).tolist() == [9, -1]
    everything = Constraints((Suppress((9,)),), (Prefix.of([[1, 2, 3, 9], []], torch.device("cpu")),))
    allowed = everything(log_probs, tokens)
    assert (allowed[0] == 0).nonzero().flatten().tolist() == [9], "the demand wins"
    assert allowed[1, 9].isinf()


def test_sampling_filters() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert (filter_probabilities(log_probs, 1.0, 2, 1.0) > 0).tolist() == [[True, True, False, False]]
    assert (filter_probabilities(log_probs, 1.0, 0, 0.7) > 0).tolist() == [[True, True, False, False]]
    assert (filter_probabilities(log_probs, 1.0, 0, 0.01) > 0).tolist() == [[True, False, False, False]]
    cold = filter_probabilities(log_probs, 0.1, 0, 1.0)
    assert cold[0, 0] > 0.99


def test_samples_follow_the_distribution_and_the_seed() -> None:
    table = Table({(): letters(0.6, 0.3, 0.1, 0.0)}, 9)
    batch = collate_sources([[6]])

    def draw(seed: int) -> list[tuple[int, ...]]:
        config = DecodeConfig(n_best=3000, max_len=1, sampling=SamplingConfig(seed=seed))
        return [h.ids for h in decode(table, batch, config)[0]]

    first = draw(1)
    assert first == draw(1) and first != draw(2)
    for letter, p in ((A, 0.6), (B, 0.3), (C, 0.1)):
        assert first.count((letter,)) / 3000 == pytest.approx(p, abs=0.04)


@pytest.mark.parametrize("beam", [1, 3])
def test_contradicting_constraints_end_the_sentence(beam: int) -> None:
    config = DecodeConfig(beam=beam, no_repeat_ngram=1, min_len=60)
    for [hypothesis] in decode(tiny_model(), collate_sources(SOURCES), config):
        assert len(set(hypothesis.ids)) == len(hypothesis.ids) <= VOCAB


@pytest.mark.parametrize("beam", [1, 3])
def test_learned_positions_bound_the_length(beam: int) -> None:
    model = tiny_model(positions="learned", max_len=8)
    for row in decode(model, collate_sources(SOURCES), DecodeConfig(beam=beam)):
        assert len(row[0].ids) <= 7
    assert Ensemble([model, tiny_model()]).max_target_len(collate_sources(SOURCES)).tolist() == [7] * len(SOURCES)


def test_more_hypotheses_than_places_is_refused() -> None:
    with pytest.raises(UserError, match="beam of at least 4"):
        DecodeConfig.parse({"beam": 2, "n_best": 4})
