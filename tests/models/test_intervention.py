"""Heads switched off by an argument: in training, tracing, stepping and searching."""

import pytest
import torch

from regard.errors import UserError
from regard.models.intervention import ChangedModel, Intervention
from regard.models.record import KINDS
from regard.search.decode import DecodeConfig, decode
from tests.models.configs import ALL, batch_for, build

WITH_HEADS = [name for name in ALL if any(build(name).attention_modules(kind) for kind in KINDS) and "rnn" not in name]


def all_heads(name: str, layer: int = 0) -> list[tuple[str, int, int]]:
    """All heads of one layer, of every kind of attention"""
    model = build(name)
    return [
        (kind, layer, head)
        for kind in KINDS
        if (modules := model.attention_modules(kind))
        for head in range(modules[layer].n_heads)
    ]


@pytest.mark.parametrize("name", WITH_HEADS)
def test_all_heads_off_equals_an_output_matrix_of_zeros(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 4), (6, 5)])
    mask = Intervention.switch_off(model, all_heads(name))
    masked = model(batch, mask)
    assert not torch.allclose(masked, model(batch))
    traced = model.trace_attention(batch, mask)
    with torch.no_grad():
        for kind in KINDS:
            for module in model.attention_modules(kind)[:1]:
                module.out.weight.zero_()
    torch.testing.assert_close(masked, model(batch), rtol=0, atol=1e-12)
    for kind in KINDS:  # later layers attend as they do without the heads of the first layer
        for trace, expected in zip(getattr(traced, kind), getattr(model.trace_attention(batch), kind), strict=True):
            torch.testing.assert_close(trace.weights, expected.weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", WITH_HEADS)
def test_step_by_step_equals_the_whole_target_at_once(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (7, 7)])
    mask = Intervention.switch_off(model, all_heads(name)[::2])
    expected = model(batch, mask).log_softmax(-1)
    state = model.start(batch, mask)
    for t in range(3):
        log_probs, state = model.step(state, batch.tgt_in[:, t])
        torch.testing.assert_close(log_probs.double(), expected[:, t], rtol=0, atol=1e-5)


def test_search_with_heads_off_does_not_change_the_weights() -> None:
    name = "transformer-transformer"
    model, batch = build(name), batch_for(name, [(3, 1), (7, 1)])
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    config = DecodeConfig(beam=3, max_len=8)
    plain = decode(model, batch, config)
    masked = decode(ChangedModel(model, Intervention.switch_off(model, all_heads(name))), batch, config)
    assert [h.log_prob for h in masked[0]] != [h.log_prob for h in plain[0]]
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
    with torch.no_grad():
        for kind in KINDS:
            model.attention_modules(kind)[0].out.weight.zero_()
    zeroed = decode(model, batch, config)
    assert [[h.ids for h in row] for row in masked] == [[h.ids for h in row] for row in zeroed]


def test_heads_that_do_not_exist_are_refused() -> None:
    model = build("transformer-transformer")
    assert Intervention.switch_off(model, []) is None
    with pytest.raises(UserError, match="no head 4; this model has 0 to 3"):
        Intervention.switch_off(model, [("cross", 0, 4)])
    with pytest.raises(UserError, match="no layer 2 of encoder attention"):
        Intervention.switch_off(model, [("encoder", 2, 0)])
    with pytest.raises(UserError, match="no layer 0 of self attention"):
        Intervention.switch_off(model, [("self", 0, 0)])
    with pytest.raises(UserError, match="no heads to switch off"):
        Intervention.switch_off(build("rnn-rnn"), [("cross", 0, 0)])
    with pytest.raises(UserError, match="no layer 0 of encoder attention"):
        Intervention.switch_off(build("rnn-rnn"), [("encoder", 0, 0)])
