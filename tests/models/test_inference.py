"""Copies of models for decoding compute the same as the models."""

import pytest
import torch

from regard.data.batch import collate_sources
from regard.models import build, inference
from regard.models.inference import PackedLinear, inference_copy
from regard.search.decode import DecodeConfig, decode
from tests.conftest import VOCAB, tiny_model
from tests.search.cases import SOURCES, assert_same_hypotheses

WIDE = {"d_model": 256, "n_heads": 4, "d_ff": 256, "n_layers": 1, "dropout": 0.0}


@pytest.mark.parametrize("plain_is_slow", [False, True])
def test_packed_products_equal_plain_ones(plain_is_slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one or two rows, the processor decides which product is used."""
    monkeypatch.setattr(inference, "_plain_is_slow", lambda: plain_is_slow)
    linear = torch.nn.Linear(256, 40)
    for rows in (1, 2, 3, 50):
        x = torch.randn(rows, 1, 256)
        torch.testing.assert_close(PackedLinear(linear)(x), linear(x), rtol=1e-4, atol=1e-5)
        expected = torch.nn.functional.gelu(linear(x))
        torch.testing.assert_close(PackedLinear(linear, gelu=True)(x), expected, rtol=1e-4, atol=1e-5)


def test_a_wide_model_is_packed_and_decodes_the_same() -> None:
    torch.manual_seed(2)
    model, batch = build(WIDE, VOCAB).eval(), collate_sources(SOURCES)
    copied = inference_copy(model)
    assert any(isinstance(module, PackedLinear) for module in copied.modules())
    assert inference_copy(model) is copied, "the copy is kept"
    for config in (DecodeConfig(beam=1), DecodeConfig(beam=4)):
        assert_same_hypotheses(decode(copied, batch, config), decode(model, batch, config))


def test_a_copy_follows_the_weights() -> None:
    model, batch = build(WIDE, VOCAB).eval(), collate_sources(SOURCES)
    before = decode(inference_copy(model), batch, DecodeConfig())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    after = decode(inference_copy(model), batch, DecodeConfig())
    assert_same_hypotheses(after, decode(model, batch, DecodeConfig()))
    assert [h.ids for [h] in after] != [h.ids for [h] in before]


def test_a_narrow_model_is_not_packed_and_bf16_is_possible_on_request() -> None:
    model = tiny_model(1).float()
    assert not any(isinstance(module, PackedLinear) for module in inference_copy(model).modules())
    half = inference_copy(model, "bf16")
    assert next(half.parameters()).dtype == torch.bfloat16 and next(model.parameters()).dtype == torch.float32
    assert len(decode(half, collate_sources(SOURCES), DecodeConfig(beam=2))) == len(SOURCES)
