"""Traces: scores and mask give the recorded weights, and the fused kernel used the same ones."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.models.record import KINDS, AttentionRecord, HeadRecord
from regard.nn.attention import MultiHeadAttention
from regard.nn.normalise import NORMALISERS
from regard.pipelines.encoded_input import EncodedInput
from tests.models.configs import SEQ2SEQ, build

BATCH = EncodedInput(torch.tensor([[7, 8, 9, 10, 3]])).batch([11, 12, 13, 3])
NAMES = (("a", "b", "c", "d", "</s>"), ("w", "x", "y", "</s>"))


def normalised_models() -> list[str]:
    """Models whose weights follow from the columns of one trace, unlike those of concatenation (see below)"""
    others = ("'kind': 'decoder'", "linear")
    return [name for name, config in SEQ2SEQ.items() if not any(other in str(config) for other in others)]


@pytest.mark.parametrize("name", normalised_models())
def test_scores_and_mask_give_the_weights(name: str) -> None:
    model, batch = build(name), BATCH
    traces = model.trace_attention(batch)
    record = AttentionRecord.from_traces(traces, *NAMES)
    for kind in KINDS:
        for layer, weights in enumerate(record.weights(kind)):
            head = HeadRecord.from_traces(traces, record, kind, layer, len(weights) - 1)
            normalise = model.attention_modules(kind)[layer].normalise
            expected = NORMALISERS[normalise](torch.from_numpy(head.scores), torch.from_numpy(head.mask))
            np.testing.assert_allclose(head.weights, expected.numpy(), rtol=0, atol=1e-6)
            if normalise == "softmax":
                np.testing.assert_allclose(head.weights.sum(-1), 1.0, rtol=0, atol=1e-6)
            assert (head.weights[~head.mask] == 0).all()
            assert head.output.shape == (len(head.rows), head.v.shape[1])
            assert head.scores.shape == (len(head.q), len(head.k)) == (len(head.rows), len(head.columns))


@pytest.mark.parametrize(
    "name",
    [
        *("transformer-transformer", "gpt", "gpt, free widths", "transformer: wide heads"),
        *("transformer: narrow keys, wide values", "transformer: grouped heads of free width"),
        *(name for name in SEQ2SEQ if name.endswith(("rotary", "alibi", "llama"))),
    ],
)
def test_recorded_weights_reproduce_the_output_of_the_fused_kernel(name: str) -> None:
    """In float32, as models run, and for every layer"""
    model, batch = build(name).float().eval(), BATCH
    fused: dict[nn.Module, torch.Tensor] = {}
    modules = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    hooks = [m.register_forward_hook(lambda m, _, out: fused.update({m: out[0]})) for m in modules]
    with torch.inference_mode():
        model(batch)
        for hook in hooks:
            hook.remove()
        traced: dict[nn.Module, torch.Tensor] = {}
        for module in modules:
            module.register_forward_hook(lambda m, _, out: traced.update({m: m.join_heads(out[1].output)}))
        model.trace_attention(batch)
    assert modules and set(fused) == set(traced) == set(modules)
    for module in modules:
        torch.testing.assert_close(traced[module], fused[module], rtol=0, atol=1e-5)


def test_with_concatenation_source_and_target_share_one_softmax() -> None:
    record = AttentionRecord.from_traces(build("gpt").trace_attention(BATCH), *NAMES)
    np.testing.assert_allclose(record.cross.sum(-1) + record.decoder.sum(-1), 1.0, rtol=0, atol=1e-6)


def test_heads_and_kinds_that_do_not_exist_are_refused() -> None:
    model, batch = build("transformer-transformer"), BATCH
    traces = model.trace_attention(batch)
    record = AttentionRecord.from_traces(traces, *NAMES)
    assert record.axis_tokens("decoder") == (NAMES[1], ("<s>", "w", "x", "y"))
    with pytest.raises(UserError, match="no head 4; this model has 0 to 3"):
        HeadRecord.from_traces(traces, record, "cross", 0, 4)
    with pytest.raises(UserError, match="choose one of"):
        HeadRecord.from_traces(traces, record, "self", 0, 0)
    rnn = build("rnn-rnn").trace_attention(batch)
    with pytest.raises(UserError, match="no encoder attention"):
        HeadRecord.from_traces(rnn, AttentionRecord.from_traces(rnn, *NAMES), "encoder", 0, 0)
