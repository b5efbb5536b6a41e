"""Relations that hold for every way of decoding."""

from contextlib import nullcontext
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.batch import Batch, collate_sources
from regard.errors import UserError
from regard.models.inference import inference_copy
from regard.search.capture import _CAPTURES
from regard.search.decode import DecodeConfig, decode
from regard.search.length_penalty import normalise_score
from regard.search.nested import copy_into, list_tensors, map_tensors
from regard.search.protocols import SearchStep
from regard.search.slots import Slots
from regard.search.traced import TracedSteps
from regard.text.vocab import BOS, EOS, PAD
from tests.conftest import tiny_model
from tests.search.cases import SOURCES, assert_same_hypotheses, searches_and_sampling
from tests.search.table_model import lecture_example


@pytest.mark.parametrize(
    "options",
    [
        {"length_penalty": 10.0, "min_len": 200, "max_len": 200},
        {"sampling": {"temperature": 0.001}},
        {"sampling": {"temperature": 1000.0, "top_k": 1_000_000, "seed": 2**63 - 1}},
        {"sampling": {"top_p": 1e-300}},
        {"beam": 1000, "n_best": 1000, "max_len": 2},
    ],
    ids=str,
)
def test_values_at_the_bounds_give_finite_scores(options: dict[str, Any]) -> None:
    for row in decode(tiny_model(1), collate_sources(SOURCES), DecodeConfig.parse(options)):
        assert row and all(isfinite(hypothesis.score) for hypothesis in row)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_penalty": 1000}, "length_penalty must be at most 10"),
        ({"sampling": {"temperature": 1e-320}}, "sampling.temperature must be at least 0.001"),
        ({"sampling": {"temperature": 1e300}}, "sampling.temperature must be at most 1,000"),
        ({"sampling": {"seed": 10**30}}, "sampling.seed must be less than"),
        ({"sampling": {"top_k": 10**30}}, "sampling.top_k must be at most"),
        ({"min_len": 5, "max_len": 4}, "min_len=5 is more than max_len=4"),
        ({"max_len": 10**20}, "max_len must be at most"),
        ({"no_repeat_ngram": 10**20}, "no_repeat_ngram must be at most"),
    ],
    ids=str,
)
def test_values_out_of_bounds_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DecodeConfig.parse(options)


@searches_and_sampling
def test_a_sentence_alone_gives_the_same_as_in_any_batch(config: DecodeConfig) -> None:
    model = tiny_model(1)
    together = decode(model, collate_sources(SOURCES), config)
    for source, expected in zip(SOURCES, together, strict=True):
        assert_same_hypotheses(decode(model, collate_sources([source]), config), [expected])
    reversed_order = decode(model, collate_sources(SOURCES[::-1]), config)
    assert_same_hypotheses(reversed_order[::-1], together)


class SmallMemory:
    """A model that runs out of memory in the middle of searching for more than `most` hypotheses."""

    def __init__(self, model: Any, most: int) -> None:
        self.model, self.most = model, most
        self.max_target_len = model.max_target_len

    def start(self, batch: Batch) -> Any:
        self.n_steps = 0
        return self.model.start(batch)

    def step(self, state: Any, ids: Tensor) -> tuple[Tensor, Any]:
        self.n_steps += 1
        if self.n_steps > 2 and len(ids) > self.most:
            raise torch.OutOfMemoryError
        return self.model.step(state, ids)


@searches_and_sampling
def test_a_batch_that_does_not_fit_is_split_and_gives_the_same(config: DecodeConfig) -> None:
    model, batch = tiny_model(1), collate_sources(SOURCES)
    expected = decode(model, batch, config)
    hypotheses_of_two = 2 * (config.n_best if config.sampling else config.beam)
    assert_same_hypotheses(decode(SmallMemory(model, hypotheses_of_two), batch, config), expected)
    with pytest.raises(UserError, match="out of memory"):
        decode(SmallMemory(model, 0), batch, config)


def test_split_batches_keep_their_prefixes() -> None:
    model, batch, prefixes = tiny_model(1), collate_sources(SOURCES), [[i + 6] * i for i in range(len(SOURCES))]
    expected = decode(model, batch, DecodeConfig(), prefixes)
    assert_same_hypotheses(decode(SmallMemory(model, 5), batch, DecodeConfig(), prefixes), expected)


def test_an_observed_search_is_not_split_because_steps_would_be_seen_twice() -> None:
    batch, numbers = collate_sources(SOURCES), set()
    with pytest.raises(UserError, match="out of memory"):
        decode(SmallMemory(tiny_model(1), 5), batch, DecodeConfig(), observer=lambda step: numbers.add(len(step.ids)))
    assert numbers == {len(SOURCES)}


@dataclass(frozen=True)
class UncachedState:
    """The source and all tokens so far, one row per hypothesis."""

    src: Tensor
    tokens: Tensor

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "UncachedState":
        return UncachedState(self.src[rows], self.tokens[rows])


class UncachedModel:
    """Runs a model on all tokens again at every step."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def max_target_len(self, batch: Batch) -> None:
        return None

    def start(self, batch: Batch) -> UncachedState:
        return UncachedState(batch.src, torch.empty(batch.size, 0, dtype=torch.int64))

    def step(self, state: UncachedState, ids: Tensor) -> tuple[Tensor, UncachedState]:
        tokens = torch.cat([state.tokens, ids[:, None]], dim=1)
        padded = torch.cat([tokens, torch.full_like(ids[:, None], PAD)], dim=1)
        log_probs = self.model(Batch.of(state.src, padded))[:, -1].log_softmax(-1)
        return log_probs, UncachedState(state.src, tokens)


@searches_and_sampling
def test_decoding_with_a_cache_equals_decoding_without(config: DecodeConfig) -> None:
    model, batch = tiny_model(2), collate_sources(SOURCES)
    assert_same_hypotheses(decode(model, batch, config), decode(UncachedModel(model), batch, config))


@searches_and_sampling
def test_scores_are_log_probabilities_of_the_model_divided_by_the_length_penalty(config: DecodeConfig) -> None:
    model = tiny_model(7)
    for source, row in zip(SOURCES, decode(model, collate_sources(SOURCES), config), strict=True):
        for hypothesis in row:
            tgt = torch.tensor([[BOS, *hypothesis.ids, EOS]])
            log_probs = model(Batch.of(collate_sources([source]).src, tgt)).log_softmax(-1)
            expected = log_probs[0].gather(1, tgt[0, 1:, None]).sum().item()
            assert hypothesis.log_prob == pytest.approx(expected, abs=1e-4)
            assert hypothesis.score == pytest.approx(normalise_score(expected, tgt.shape[1] - 1, 0.6), abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
def test_learned_positions_limit_the_length(beam: int) -> None:
    model = tiny_model(positions="learned", max_len=8)
    for row in decode(model, collate_sources(SOURCES), DecodeConfig(beam=beam)):
        assert len(row[0].ids) <= 7


def test_more_hypotheses_than_the_beam_is_wide_are_refused() -> None:
    with pytest.raises(UserError, match="beam of at least 4"):
        DecodeConfig.parse({"beam": 2, "n_best": 4})


@searches_and_sampling
@pytest.mark.parametrize("n_slots", [1, 2, 3])
def test_sentences_that_wait_for_a_slot_give_the_same(config: DecodeConfig, n_slots: int) -> None:
    model, batch, prefixes = tiny_model(1), collate_sources(SOURCES * 3), [[i + 6] * (i % 3) for i in range(15)]
    together = decode(model, batch, config)
    assert_same_hypotheses(decode(model, batch, config, n_slots=n_slots), together)
    with_prefixes = decode(model, batch, config, prefixes)
    assert_same_hypotheses(decode(model, batch, config, prefixes, n_slots=n_slots), with_prefixes)


@searches_and_sampling
def test_short_sentences_after_a_long_one_give_the_same(config: DecodeConfig) -> None:
    """When the long one is done, its slot stays for a while, but there is room for short ones only."""
    batch, model = collate_sources([[7] * 12, *([6 + i % 30, 20] for i in range(60))]), tiny_model(1)
    config = config.model_copy(update={"max_len": None, "min_len": 0})
    assert_same_hypotheses(decode(model, batch, config, n_slots=9), decode(model, batch, config))


def test_a_table_decodes_one_group_of_slots_after_the_other() -> None:
    model, batch = lecture_example(), collate_sources([[6]] * 5)
    config = DecodeConfig(beam=2, length_penalty=0.0, min_len=3)
    assert_same_hypotheses(decode(model, batch, config, n_slots=2), decode(model, batch, config))


class BufferedSteps:
    """Runs steps as a CUDA graph does: in buffers that stay in their place, which each step overwrites."""

    on_gpu = True

    def __init__(self) -> None:
        self.buffers: dict[object, Slots[Any]] = {}

    def start(self, begin: Any, run: Any, key: Any, inputs: Any) -> Slots[Any]:
        return begin(inputs)

    def step(self, run: Any, key: Any, slots: Slots[Any]) -> tuple[Slots[Any], SearchStep]:
        shapes = key, tuple(tensor.shape for tensor in list_tensors(slots))
        buffers = self.buffers.setdefault(shapes, map_tensors(torch.clone, slots))
        if slots is not buffers:
            copy_into(buffers, slots)
        run(map_tensors(torch.clone, buffers))
        after, step = run(buffers)
        copy_into(buffers, after)
        return buffers, step


def ending_model() -> Any:
    """A model that often ends a hypothesis before its maximum length."""
    model = tiny_model(1)
    with torch.no_grad():
        model.output.weight[EOS] = model.output.weight[6:].mean(0) + 0.3 * model.output.weight[EOS]
    return model


@searches_and_sampling
@pytest.mark.parametrize("n_slots", [2, 15])
def test_steps_in_fixed_buffers_give_the_same(
    config: DecodeConfig, n_slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = ending_model(), collate_sources(SOURCES * 3)
    expected = decode(model, batch, config)
    lengths = {len(hypothesis.ids) for row in expected for hypothesis in row}
    assert config.max_len or len(lengths) > 2, "not all end at the maximum length"
    graphs = BufferedSteps()
    monkeypatch.setattr("regard.search.decode.captured_steps", lambda model, device: nullcontext(graphs))
    assert_same_hypotheses(decode(model, batch, config, n_slots=n_slots), expected)
    assert graphs.buffers


@searches_and_sampling
def test_traced_steps_give_the_same(config: DecodeConfig) -> None:
    original, batch = ending_model(), collate_sources(SOURCES[:2])
    expected, model = decode(original, batch, config), inference_copy(original)
    for _ in range(5):
        assert_same_hypotheses(decode(model, batch, config), expected)
    [(_, capture)] = [value for key, value in _CAPTURES.items() if key is model]
    assert isinstance(capture, TracedSteps) and any(capture.traces.values()), "the last searches were traced"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@searches_and_sampling
@pytest.mark.parametrize("n_slots", [2, 15])
def test_steps_as_cuda_graphs_give_the_same(config: DecodeConfig, n_slots: int) -> None:
    model, batch = ending_model(), collate_sources(SOURCES * 3)
    expected = decode(model, batch, config)
    on_gpu = decode(model.cuda(), batch.to(torch.device("cuda")), config, n_slots=n_slots)
    assert_same_hypotheses(on_gpu, expected)


class Counter:
    """Counts how often it is called, and stops the search of sentence 1 at the third call."""

    def __init__(self, interval: int) -> None:
        self.interval, self.n_calls = interval, 0

    def __call__(self, step: SearchStep) -> Tensor | None:
        self.n_calls += 1
        return step.sentences == 1 if self.n_calls == 3 else None


@pytest.mark.parametrize("interval", [1, 4])
@pytest.mark.parametrize("captured", [False, True])
def test_an_observer_is_called_at_its_interval_and_can_stop_a_sentence(
    interval: int, captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch, config = tiny_model(1), collate_sources(SOURCES), DecodeConfig(beam=3, min_len=19, max_len=19)
    if captured:
        monkeypatch.setattr("regard.search.decode.captured_steps", lambda model, device: nullcontext(BufferedSteps()))
    counter = Counter(interval)
    results = decode(model, batch, config, observer=counter)
    assert counter.n_calls == 20 // interval
    assert [len(row) for row in results] == [1, 0, 1, 1, 1]


def test_a_traced_search_calls_its_observer_at_the_same_steps() -> None:
    original, batch = tiny_model(1), collate_sources(SOURCES)
    model, config = inference_copy(original), DecodeConfig(beam=3, min_len=19, max_len=19)
    for _ in range(6):
        counter = Counter(interval=4)
        assert [len(row) for row in decode(model, batch, config, observer=counter)] == [1, 0, 1, 1, 1]
        assert counter.n_calls == 5
    [(_, capture)] = [value for key, value in _CAPTURES.items() if key is model]
    assert isinstance(capture, TracedSteps) and any(capture.traces.values())


def test_what_traced_steps_keep_is_bounded_and_outlives_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.search.traced._MAX_COUNTED", 3)
    model, batch = inference_copy(tiny_model(1)), collate_sources(SOURCES)
    for _ in range(6):
        expected = decode(model, batch, DecodeConfig(beam=2, max_len=9))
    [(_, capture)] = [value for key, value in _CAPTURES.items() if key is model]
    assert isinstance(capture, TracedSteps) and any(capture.traces.values())
    for penalty in range(12):
        decode(model, batch, DecodeConfig(beam=2, max_len=9, length_penalty=penalty / 10))
        assert len(capture.n_searches) <= 3

    def fail(step: SearchStep) -> None:
        raise ValueError("of the observer")

    with pytest.raises(ValueError, match="observer"):
        decode(model, batch, DecodeConfig(beam=2, max_len=9), observer=fail)  # type: ignore[arg-type]
    [(_, kept)] = [value for key, value in _CAPTURES.items() if key is model]
    assert kept is capture, "torch never frees a trace"
    assert_same_hypotheses(decode(model, batch, DecodeConfig(beam=2, max_len=9)), expected)
