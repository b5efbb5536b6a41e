"""Beam search with required terms: against plain beam search, exhaustive search, and a check of the outputs."""

import itertools
import random
from collections.abc import Sequence

import pytest
import torch

from regard.data.batch import collate_sources
from regard.errors import UserError
from regard.models.inference import inference_copy
from regard.search.capture import _CAPTURES
from regard.search.decode import DecodeConfig, decode
from regard.search.length_penalty import normalise_score
from regard.search.required_terms import RequiredTerm, TermForm, TermSearch, TokenEdges
from regard.search.traced import TracedSteps
from regard.text.vocab import EOS
from tests.conftest import VOCAB, tiny_model
from tests.search.cases import SOURCES, assert_same_hypotheses
from tests.search.table_model import VOCAB_SIZE, A, B, C, TableModel

MARK = VOCAB - 1
CONTINUING = range(30, VOCAB)
"""Tokens that continue the word before them; MARK also continues one that does not end with a letter"""


def edges(vocab_size: int, continuing: Sequence[int] = (), marks: Sequence[int] = ()) -> TokenEdges:
    """All tokens end with a letter; those that do not continue a word start a new one."""
    starts, is_mark = torch.zeros(vocab_size, dtype=torch.bool), torch.zeros(vocab_size, dtype=torch.bool)
    starts[list(continuing)], is_mark[list(marks)] = True, True
    return TokenEdges(starts, is_mark, torch.ones(vocab_size, dtype=torch.bool))


WORDS = edges(VOCAB)
PIECES = edges(VOCAB, CONTINUING, [MARK])


def term(*forms: Sequence[int], times: int = 1) -> RequiredTerm:
    return RequiredTerm(tuple(TermForm(tuple(ids)) for ids in forms), times)


def n_occurrences(ids: Sequence[int], term: RequiredTerm, table: TokenEdges) -> int:
    """How many times a term is in the ids as whole words, without overlaps: every set of places is tried."""

    def ends_at(start: int) -> list[int]:
        ends = []
        for form in term.forms:
            end = start + len(form.ids)
            following = ids[end] if end < len(ids) else EOS
            joined = table.starts_with_mark[following] or (
                form.ends_with_letter and table.starts_with_letter[following]
            )
            first = ids[start]
            inside = start > 0 and form.starts_with_letter and table.starts_with_letter[first]
            misplaced = form.only_first and start > 0
            if tuple(ids[start:end]) == form.ids and not (
                joined or inside or table.starts_with_mark[first] or misplaced
            ):
                ends.append(end)
        return ends

    most = [0] * (len(ids) + 1)
    for start in reversed(range(len(ids))):
        most[start] = max([most[start + 1], *(1 + most[end] for end in ends_at(start))])
    return most[0]


def random_terms(generator: random.Random) -> list[RequiredTerm]:
    """Up to three terms of few different tokens, so that they are often prefixes of each other"""
    tokens = [20, 21, 22, 31, 32]
    return [
        term(
            *(
                [generator.choice(tokens[:3]), *generator.choices(tokens, k=generator.randrange(3))]
                for _ in range(generator.randint(1, 3))
            ),
            times=generator.choice([1, 1, 2]),
        )
        for _ in range(generator.randrange(4))
    ]


@pytest.mark.parametrize(
    "config", [DecodeConfig(beam=2), DecodeConfig(beam=5, n_best=3), DecodeConfig(max_len=4)], ids=str
)
def test_without_terms_it_is_plain_beam_search(config: DecodeConfig) -> None:
    batch = collate_sources(SOURCES)
    for seed in range(5):
        model = tiny_model(seed)
        plain = decode(model, batch, config)
        assert decode(model, batch, config, terms=TermSearch([[]] * len(SOURCES), PIECES)) == plain
        some = TermSearch([[], [term([20])], [], [term([21, 22], times=2)], []], PIECES)
        mixed = decode(model, batch, config, terms=some)
        assert [mixed[i] for i in (0, 2, 4)] == [plain[i] for i in (0, 2, 4)], "in a batch with others that have terms"
        assert mixed[1] != plain[1]


@pytest.mark.parametrize("table", [WORDS, PIECES], ids=["words", "pieces of words"])
def test_every_term_occurs_as_often_as_required(table: TokenEdges) -> None:
    generator, n_terms = random.Random(5), 0
    for seed in range(8):
        rows = [random_terms(generator) for _ in SOURCES]
        config = DecodeConfig(beam=generator.choice([2, 5, 9]), n_best=2)
        for row, hypotheses in zip(
            rows, decode(tiny_model(seed), collate_sources(SOURCES), config, terms=TermSearch(rows, table)), strict=True
        ):
            for required, hypothesis in itertools.product(row, hypotheses):
                n_terms += 1
                assert n_occurrences(hypothesis.ids, required, table) >= required.times, (required, hypothesis)
    assert n_terms > 50


def test_a_sentence_alone_gives_the_same_as_in_any_batch() -> None:
    generator, model, config = random.Random(1), tiny_model(1), DecodeConfig(n_best=2)
    rows = [random_terms(generator) for _ in SOURCES]
    together = decode(model, collate_sources(SOURCES), config, terms=TermSearch(rows, PIECES))
    for source, row, expected in zip(SOURCES, rows, together, strict=True):
        alone = decode(model, collate_sources([source]), config, terms=TermSearch([row], PIECES))
        assert_same_hypotheses(alone, [expected])
    in_slots = decode(model, collate_sources(SOURCES), config, n_slots=2, terms=TermSearch(rows, PIECES))
    assert_same_hypotheses(in_slots, together)


def test_traced_steps_give_the_same_for_terms_of_any_shape() -> None:
    plain, batch, config = tiny_model(2).float(), collate_sources(SOURCES[:2]), DecodeConfig(max_len=14)
    model = inference_copy(plain, "fp32")
    for row in ([term([20])], [term([20, 21, 22, 23, 24]), term([25], [26, 27])], [term([28], [29], [30], [31], [32])]):
        terms = TermSearch([row] * 2, PIECES)
        expected = decode(plain, batch, config, terms=terms)
        for _ in range(5):
            assert_same_hypotheses(decode(model, batch, config, terms=terms), expected)
    capture = _CAPTURES[model][1]
    assert isinstance(capture, TracedSteps) and sum(trace is not None for trace in capture.traces.values()) >= 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_steps_as_cuda_graphs_give_the_same() -> None:
    generator, model, config = random.Random(1), tiny_model(1), DecodeConfig(n_best=2)
    rows = [random_terms(generator) for _ in SOURCES]
    expected = decode(model, collate_sources(SOURCES), config, terms=TermSearch(rows, PIECES))
    tables = (PIECES.starts_with_letter, PIECES.starts_with_mark, PIECES.ends_with_letter)
    terms = TermSearch(rows, TokenEdges(*(table.cuda() for table in tables)))
    on_gpu = collate_sources(SOURCES).to(torch.device("cuda"))
    for _ in range(2):
        assert_same_hypotheses(decode(model.cuda(), on_gpu, config, n_slots=3, terms=terms), expected)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_outputs_with_the_terms(length_penalty: float) -> None:
    """Score every sequence that contains the terms one by one. C continues the word before it."""
    generator, max_len = torch.Generator().manual_seed(4), 4
    table, scores = dict[tuple[int, ...], list[float]](), dict[tuple[int, ...], float]()
    continuing = edges(VOCAB_SIZE, [C])
    sequences = [s for n in range(max_len + 1) for s in itertools.product([A, B, C], repeat=n)]
    for sequence in sequences:
        p = torch.rand(VOCAB_SIZE, generator=generator, dtype=torch.float64)
        p[[i for i in range(VOCAB_SIZE) if i not in (A, B, C, EOS)]] = 0
        table[sequence] = (p / p.sum()).tolist()
    for sequence in sequences:
        path = [table[sequence[:i]][token] for i, token in enumerate((*sequence, EOS))]
        log_prob = torch.tensor(path, dtype=torch.float64).log().sum().item()
        scores[sequence] = normalise_score(log_prob, len(sequence) + 1, length_penalty)
    config = DecodeConfig(beam=300, n_best=5, length_penalty=length_penalty, max_len=max_len)
    for row in (
        [term([A])],
        [term([A, C])],
        [term([A], times=2)],
        [term([A], [B], times=3)],
        [term([A, B]), term([A])],
        [term([B, B], [B, C])],
        [term([A]), term([A, C])],
        [RequiredTerm((TermForm((B, C), only_first=True), TermForm((A, A))))],
    ):
        allowed = [s for s in sequences if all(n_occurrences(s, each, continuing) >= each.times for each in row)]
        best = sorted(allowed, key=lambda s: -scores[s])[:5]
        [found] = decode(TableModel(table), collate_sources([[6]]), config, terms=TermSearch([row], continuing))
        assert [h.ids for h in found] == best
        assert [h.score for h in found] == pytest.approx([scores[s] for s in best])


def test_a_word_is_ended_even_if_the_model_would_continue_it() -> None:
    """After A the two most likely tokens continue the word, and no others are looked at without the term."""
    after_a = [{B: 0.5, C: 0.499, EOS: 0.001}.get(i, 0.0) for i in range(VOCAB_SIZE)]
    others = [{A: 0.5, B: 0.3, EOS: 0.2}.get(i, 0.0) for i in range(VOCAB_SIZE)]
    table = {s: after_a if s[-1:] == (A,) else others for n in range(7) for s in itertools.product([A, B, C], repeat=n)}
    terms = TermSearch([[term([A])]], edges(VOCAB_SIZE, [B, C]))
    [[best]] = decode(TableModel(table), collate_sources([[6]]), DecodeConfig(beam=1, max_len=6), terms=terms)
    assert best.ids == (A,)


def test_there_is_room_for_many_terms_after_a_short_source() -> None:
    row = [term(range(start, start + 5)) for start in (10, 15, 20, 25)]
    [[best]] = decode(tiny_model(1), collate_sources([[7]]), DecodeConfig(), terms=TermSearch([row], WORDS))
    assert all(n_occurrences(best.ids, each, WORDS) for each in row), "by default there are at most 14 tokens"


def test_terms_that_do_not_fit_are_left_out_rather_than_the_translation() -> None:
    rows = [[term(range(20, 28))], [term([20])], [], [], []]
    config = DecodeConfig(max_len=3)
    results = decode(tiny_model(1), collate_sources(SOURCES), config, terms=TermSearch(rows, WORDS))
    assert all(len(hypotheses[0].ids) <= 3 for hypotheses in results)
    assert 20 in results[1][0].ids


def test_a_forced_prefix_comes_first_and_counts() -> None:
    rows = [[term([20, 21]), term([25])]] * len(SOURCES)
    prefixes = [[20, 21, 22]] * len(SOURCES)
    model, batch = tiny_model(3), collate_sources(SOURCES)
    for [best] in decode(model, batch, DecodeConfig(), prefixes, terms=TermSearch(rows, WORDS)):
        assert best.ids[:3] == (20, 21, 22) and 25 in best.ids


def test_sampling_cannot_search_for_terms() -> None:
    config = DecodeConfig.parse({"sampling": {}})
    with pytest.raises(UserError, match="need beam search"):
        decode(tiny_model(), collate_sources(SOURCES), config, terms=TermSearch([[]] * len(SOURCES), WORDS))
