"""Speculative decoding: whatever the draft proposes, the output is that of greedy search."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.data.batch import Batch, collate_sources
from regard.errors import UserError
from regard.models.inference import inference_copy
from regard.search import speculative
from regard.search.capture import _CAPTURES
from regard.search.decode import DecodeConfig, decode
from regard.search.speculative import DraftedModel, check_draft
from tests.conftest import tiny_model
from tests.models import configs
from tests.search.cases import SOURCES, assert_same_hypotheses

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
BATCH = collate_sources(SOURCES)
GREEDY = DecodeConfig(beam=1)
CONFIGS = {
    "plain": GREEDY,
    "maximum length": DecodeConfig(beam=1, max_len=4),
    "constrained": DecodeConfig(beam=1, no_repeat_ngram=2, min_len=3, max_len=20),
}


def teacher(seed: int = 10, **options: object) -> Any:
    """A model whose outputs end at different steps"""
    return tiny_model(seed, tied=False, **options)


def similar(model: Any) -> Any:
    """A draft that is often right"""
    draft = copy.deepcopy(model)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += 0.03 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1), dtype=weight.dtype)
    return draft


def wrong(model: Any) -> Any:
    """A draft that proposes what the model finds least likely"""
    draft = copy.deepcopy(model)
    with torch.no_grad():
        draft.output.weight.neg_()
    return draft


@pytest.fixture(autouse=True)
def _use_drafts_for_any_number_of_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculative, "MOST_ON_CPU", 100)


DRAFTS: dict[str, Callable[[Any], Any]] = {
    "the model itself": lambda model: model,
    "often right": similar,
    "smaller": lambda model: tiny_model(7, n_layers=1, d_model=8, n_heads=2),
    "always wrong": wrong,
}


def count_passes(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of tokens of each pass of the model."""
    read, passes = model.read_logits, list[int]()

    def counted(state: Any, ids: torch.Tensor) -> Any:
        passes.append(ids.shape[1])
        return read(state, ids)

    monkeypatch.setattr(model, "read_logits", counted)
    return passes


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_output_is_that_of_greedy_search(draft: str, config: DecodeConfig) -> None:
    for seed in (9, 10):
        model = teacher(seed)
        drafted, expected = DraftedModel(model, DRAFTS[draft](model)), decode(model, BATCH, config)
        for k in (1, 6):
            assert_same_hypotheses(decode(drafted, BATCH, config.model_copy(update={"draft_tokens": k})), expected)
        assert_same_hypotheses(decode(drafted, BATCH, config, n_slots=2), expected)
        assert_same_hypotheses(decode(drafted, collate_sources(SOURCES[:1]), config), expected[:1])


@pytest.mark.parametrize(
    "options",
    [
        {"positions": "learned", "max_len": 9},
        {"positions": "rotary", "n_kv_heads": 2},
        {"positions": "alibi"},
        {"score": "cosine"},
        {"score": "location", "max_len": 12},
    ],
    ids=str,
)
def test_every_kind_of_attention_can_be_drafted_for(options: dict[str, Any]) -> None:
    model = teacher(**options)
    expected = decode(model, BATCH, GREEDY)
    for draft in (model, teacher(11, **options)):
        for k in (1, 5):
            decoded = decode(DraftedModel(model, draft), BATCH, GREEDY.model_copy(update={"draft_tokens": k}))
            assert_same_hypotheses(decoded, expected)


@pytest.mark.parametrize(
    ("device", "dtype", "tolerance"),
    [("cpu", torch.float64, 1e-9), pytest.param("cuda", torch.bfloat16, 0.1, marks=NEEDS_GPU)],
)
@torch.inference_mode()
def test_tokens_can_be_read_at_once_and_forgotten(device: str, dtype: torch.dtype, tolerance: float) -> None:
    model, batch = teacher(d_model=64).to(device, dtype), BATCH.to(torch.device(device))
    ids = torch.arange(6, 26, device=device).view(len(SOURCES), 4)
    n_kept = torch.tensor([1, 2, 4, 0, 3], device=device)
    one_by_one, at_once = (model.start(batch).with_room(16) for _ in range(2))
    _, at_once = model.read_logits(at_once, ids.flip(1))
    logits, at_once = model.read_logits(at_once.keep(torch.zeros_like(n_kept)), ids)
    steps = []
    for t in range(4):
        (values, _), one_by_one = model.step_logits(one_by_one, ids[:, t])
        steps.append(values)
    torch.testing.assert_close(
        logits[0].view(len(SOURCES), 4, -1), torch.stack(steps, 1), atol=tolerance, rtol=tolerance
    )
    next_ids = torch.full_like(n_kept, 30)
    (after, _), _ = model.step_logits(at_once.keep(n_kept), next_ids)
    for row, n in enumerate(n_kept.tolist()):
        tokens = torch.cat([ids[row, :n], next_ids[:1]])[None]
        expected = model(Batch(batch.src[row : row + 1], tokens, tokens))[0, -1].float().log_softmax(-1)
        found = after[row].float().log_softmax(-1)
        torch.testing.assert_close(found, expected, atol=max(tolerance, 1e-5), rtol=max(tolerance, 1e-5))


@NEEDS_GPU
def test_steps_as_cuda_graphs_give_the_same() -> None:
    model, draft = teacher(9), teacher(10)
    expected = decode(model, BATCH, GREEDY)
    drafted, batch = DraftedModel(model.cuda(), draft.cuda()), BATCH.to(torch.device("cuda"))
    for n_slots in (None, 2):
        for _ in range(2):
            assert_same_hypotheses(decode(drafted, batch, GREEDY, n_slots=n_slots), expected)


def test_prefixes_are_kept() -> None:
    model, prefixes = teacher(), [[i + 6] * i for i in range(len(SOURCES))]
    expected = decode(model, BATCH, GREEDY, prefixes)
    assert_same_hypotheses(decode(DraftedModel(model, teacher(11)), BATCH, GREEDY, prefixes), expected)


@pytest.mark.parametrize(("draft", "n_kept"), [("the model itself", 5), ("always wrong", 1)])
def test_right_proposals_save_passes(draft: str, n_kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = teacher(9), collate_sources(SOURCES[2:3])
    [[hypothesis]] = decode(model, batch, GREEDY)
    drafted = DraftedModel(model, DRAFTS[draft](model))
    passes = count_passes(model, monkeypatch)
    decode(drafted, batch, GREEDY.model_copy(update={"draft_tokens": 4}))
    assert passes == [5] * -(-(len(hypothesis.ids) + 1) // n_kept), "the last token is the end"


def test_on_a_cpu_many_sentences_are_decoded_without_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    model = teacher()
    drafted, passes = DraftedModel(model, teacher(11)), count_passes(model, monkeypatch)
    monkeypatch.setattr(speculative, "MOST_ON_CPU", 2)
    expected = decode(drafted, BATCH, GREEDY)
    assert not passes
    assert_same_hypotheses(decode(drafted, BATCH, GREEDY, n_slots=2), expected)
    assert passes


def test_traced_steps_give_the_same() -> None:
    model = inference_copy(teacher(9, d_model=256, d_ff=64).float())
    draft = inference_copy(teacher(9, d_model=256, d_ff=64, n_layers=1).float())
    drafted = DraftedModel(model, draft)
    expected = [[h.ids for h in row] for row in decode(model, BATCH, GREEDY)]
    for _ in range(5):
        assert [[h.ids for h in row] for row in decode(drafted, BATCH, GREEDY)] == expected
    assert any(_CAPTURES[drafted][1].traces.values()), "steps that occur often are traced"  # type: ignore[attr-defined]


def test_other_searches_and_observed_ones_do_not_use_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    model, n_steps = teacher(), list[int]()
    drafted, passes = DraftedModel(model, teacher(11)), count_passes(model, monkeypatch)
    beam = DecodeConfig(beam=3, n_best=3)
    assert_same_hypotheses(decode(drafted, BATCH, beam), decode(model, BATCH, beam))
    observed = decode(drafted, BATCH, GREEDY, observer=lambda step: n_steps.append(len(step.ids)))  # type: ignore[arg-type, func-returns-value]
    assert_same_hypotheses(observed, decode(model, BATCH, GREEDY))
    assert n_steps and not passes


@pytest.mark.parametrize("name", ["rnn-rnn", "transformer-ssm", "transformer: linear attention", "gpt"])
def test_models_without_key_value_caches_are_refused(name: str) -> None:
    model = tiny_model()
    for pair in ((model, configs.build(name)), (configs.build(name), model)):
        with pytest.raises(UserError, match="a draft needs Transformers"):
            check_draft(*pair)


def test_a_draft_must_read_sources_as_long_as_the_model_does() -> None:
    short = tiny_model(positions="learned", max_len=8)
    check_draft(short, tiny_model())
    with pytest.raises(UserError, match="reads at most 7 tokens"):
        check_draft(tiny_model(), short)
