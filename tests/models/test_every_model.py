"""Relations that hold for every model."""

import pytest
import torch

from regard.data.batch import Batch
from regard.nn.kv_cache import CacheIndex, KvCache
from regard.search.decode import DecodeConfig, decode
from regard.search.sampling import SamplingConfig
from regard.text.vocab import PAD
from tests.models.configs import ALL, CONSTANT_STATE, SEQ2SEQ, batch_for, build

ATTENDS_TO_FEW = ("hardmax", "window", "window, context as input")
"""Ends of the names of models that attend to some source tokens only"""


@pytest.mark.parametrize("name", ALL)
def test_step_by_step_equals_the_whole_target_at_once(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (7, 7), (1, 2)])
    expected = model(batch).log_softmax(-1)
    state = model.start(batch)
    for t in range(batch.tgt_in.shape[1]):
        log_probs, state = model.step(state, batch.tgt_in[:, t])
        is_token = batch.tgt_out[:, t] != PAD
        torch.testing.assert_close(log_probs.double()[is_token], expected[is_token, t], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_padding_and_other_rows_of_the_batch_have_no_effect(name: str) -> None:
    model, padded = build(name), batch_for(name, [(3, 4), (20, 30)])
    n_src = 4 if name in SEQ2SEQ else 0
    alone = Batch(padded.src[:1, :n_src], padded.tgt_in[:1, :5], padded.tgt_out[:1, :5])
    torch.testing.assert_close(model(alone)[0], model(padded)[0, :5], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_selected_rows_continue_as_before(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (7, 7), (4, 4)])
    rows = torch.tensor([2, 0, 2])
    _, state = model.step(model.start(batch), batch.tgt_in[:, 0])
    all_rows, _ = model.step(state, batch.tgt_in[:, 1])
    selected, _ = model.step(state.select(rows), batch.tgt_in[rows, 1])
    torch.testing.assert_close(selected, all_rows[rows])


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_source_kept_once_per_sentence_equals_a_copy_per_hypothesis(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (7, 7), (4, 4)])
    rows = torch.tensor([0, 0, 0, 2, 2, 2])
    start = model.start(batch)
    shared, copied = start.select(rows, torch.tensor([0, 2])), start.select(rows)
    for t in range(3):
        ids = batch.tgt_in[rows, t]
        from_shared, shared = model.step(shared, ids)
        from_copies, copied = model.step(copied, ids)
        torch.testing.assert_close(from_shared, from_copies, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["transformer-transformer", "rnn-rnn", "ssm-ssm"])
def test_the_source_is_not_copied_while_all_sentences_stay(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 1), (7, 1)])
    start = model.start(batch)
    state = start.select(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1]))
    state = state.select(torch.tensor([1, 0, 2, 2]), torch.tensor([0, 1]))
    assert [id(tensor) for tensor in source_tensors(state)] == [id(tensor) for tensor in source_tensors(start)]


def source_tensors(state: object) -> list[torch.Tensor]:
    if hasattr(state, "memory"):
        return [state.memory.values, state.memory.mask]
    return [tensor for source in state.sources for tensor in (*source.keys_values, source.mask)]


def test_a_decoder_without_attention_does_not_keep_the_source() -> None:
    name = "rnn: no attention"
    assert build(name).start(batch_for(name, [(3, 1)])).memory is None


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith("gpt")])
def test_the_state_has_the_declared_size(name: str) -> None:
    """Except for translation by concatenation, where the state also holds the source."""
    model, batch = build(name), batch_for(name, [(3, 5)])
    state = model.start(batch)
    for t in range(4):
        _, state = model.step(state, batch.tgt_in[:, t])
    if hasattr(state, "rnn"):
        size = count_numbers(state.rnn)
    else:
        caches = [layer.entries[:, : state.index.length] for layer in state.layers if isinstance(layer, KvCache)]
        size = count_numbers([*caches, *(layer for layer in state.layers if not isinstance(layer, KvCache))])
    assert size == model.decoder.state_size(4)


@pytest.mark.parametrize("name", CONSTANT_STATE)
def test_a_state_of_constant_size_does_not_grow(name: str) -> None:
    model = build(name)
    state = model.start(Batch(*[torch.empty(1, 0, dtype=torch.int64)] * 3))
    sizes = set()
    for i in range(12):
        _, state = model.step(state, torch.tensor([6 + i]))
        sizes.add(count_numbers(state))
    assert len(sizes) == 1


def count_numbers(value: object) -> int:
    """Count the numbers in all tensors of nested tuples and objects, except the index of key-value caches."""
    if isinstance(value, CacheIndex):
        return 0
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, tuple | list):
        return sum(count_numbers(part) for part in value)
    return sum(count_numbers(part) for part in vars(value).values()) if hasattr(value, "__dict__") else 0


@pytest.mark.parametrize("name", ALL)
def test_a_prediction_does_not_depend_on_later_tokens(name: str) -> None:
    model, batch = build(name), batch_for(name, [(5, 8)])
    changed = batch.tgt_in.clone()
    changed[:, 5] = 7 if changed[0, 5] != 7 else 8
    logits = model(Batch(batch.src, changed, batch.tgt_out))
    torch.testing.assert_close(logits[:, :5], model(batch)[:, :5], rtol=0, atol=1e-12)
    assert not torch.allclose(logits[:, 5], model(batch)[:, 5]), "the prediction after the changed token changes"


@pytest.mark.parametrize("name", ALL)
def test_decoding_alone_equals_decoding_in_a_batch(name: str) -> None:
    model, batch = build(name, seed=3), batch_for(name, [(3, 1), (7, 1), (5, 1)])
    config = DecodeConfig(beam=3, max_len=8)
    together = decode(model, batch, config)
    for i, (n_src, hypotheses) in enumerate(zip((4, 8, 6), together, strict=True)):
        src = batch.src[i : i + 1, : n_src if name in SEQ2SEQ else 0]
        alone = decode(model, Batch(src, batch.tgt_in[:1], batch.tgt_out[:1]), config)[0]
        assert [h.ids for h in alone] == [h.ids for h in hypotheses]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("beam", [1, 3])
def test_decoding_in_few_slots_equals_decoding_all_at_once(name: str, beam: int) -> None:
    model, batch = build(name, seed=3), batch_for(name, [(3, 1), (7, 1), (5, 1), (2, 1), (6, 1)])
    config = DecodeConfig(beam=beam, max_len=8, length_penalty=0.0)
    together, in_slots = decode(model, batch, config), decode(model, batch, config, n_slots=2)
    assert [[h.ids for h in row] for row in in_slots] == [[h.ids for h in row] for row in together]


@pytest.mark.parametrize("name", ALL)
def test_greedy_search_equals_sampling_from_the_most_likely_token(name: str) -> None:
    model, batch = build(name, seed=3), batch_for(name, [(3, 1), (7, 1), (5, 1)])
    greedy = decode(model, batch, DecodeConfig(beam=1, max_len=8))
    sampled = decode(model, batch, DecodeConfig(max_len=8, sampling=SamplingConfig(top_k=1)))
    assert [[h.ids for h in row] for row in greedy] == [[h.ids for h in row] for row in sampled]


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_every_source_token_gets_attention_and_padding_gets_none(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (9, 7)])
    traces = model.trace_attention(batch)
    assert bool(traces.cross) == (name != "rnn: no attention")
    concatenates = name.startswith("gpt")  # its padding is on the left and attends to itself only
    is_padding = torch.arange(batch.src.shape[1]) >= 4
    is_padding = is_padding.flip(0) if concatenates else is_padding
    for trace in traces.cross if concatenates else [*traces.encoder, *traces.cross]:
        assert (trace.weights[0, :, :, is_padding] == 0).all()
        assert (trace.weights[0, :, :, ~is_padding] != 0).all() or name.endswith(ATTENDS_TO_FEW)
