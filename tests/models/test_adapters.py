"""LoRA: an adapter computes the same as the weights that it is merged into."""

import copy

import pytest
import torch
from torch import Tensor, nn

from regard import models
from regard.data.batch import collate_sources
from regard.errors import UserError
from regard.models.adapters import LoraConfig, add_adapters, merge_adapters
from regard.models.inference import inference_copy
from regard.models.weights import frozen_weights, trained_weights, weights_of
from regard.search.decode import DecodeConfig, decode
from tests.conftest import VOCAB
from tests.models.configs import TRANSFORMER_VARIANTS, batch_for, build
from tests.search.cases import SOURCES, assert_same_hypotheses

LORA = LoraConfig(rank=2)
NAMES = ["gpt", "gpt, rotary", "language model: linear", *(f"transformer: {name}" for name in TRANSFORMER_VARIANTS)]


def with_adapters(model: models.Model, config: LoraConfig = LORA) -> models.Model:
    """Return a copy of the model with adapters that change its output."""
    adapted = copy.deepcopy(model).requires_grad_(True)
    add_adapters(adapted, config)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if name.endswith("adapter.b"):
                parameter.normal_()
    return adapted


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("training", [False, True])
def test_new_adapters_change_nothing_and_merged_ones_compute_the_same(name: str, training: bool) -> None:
    # Torch may multiply in another order by a weight that has a gradient.
    model, batch = build(name).train(training).requires_grad_(False), batch_for(name, [(3, 5), (7, 7)])
    expected = model(batch)
    new = copy.deepcopy(model).requires_grad_(True)
    add_adapters(new, LORA)
    assert torch.equal(new(batch), expected)
    adapted = with_adapters(model)
    output = adapted(batch)
    assert not torch.allclose(output, expected, atol=1e-3)
    merge_adapters(adapted)
    assert torch.equal(adapted(batch), output)
    assert weights_of(adapted).keys() == weights_of(model).keys(), "an ordinary model again"


def test_the_equation_is_that_of_lora() -> None:
    """x Wᵀ + α/r · (x Aᵀ) Bᵀ + b"""
    model = with_adapters(build("transformer: rotary"), LoraConfig(rank=2, alpha=6.0))
    weights = weights_of(model)
    x = torch.randn(5, 16, dtype=torch.float64)
    for path in ("encoder.layers.0.mixer.query", "decoder.layers.1.feedforward.outer"):
        x = torch.randn(5, weights[f"{path}.weight"].shape[1], dtype=torch.float64)
        w, bias, a, b = (weights[f"{path}.{name}"] for name in ("weight", "bias", "adapter.a", "adapter.b"))
        expected = x @ w.T + 6.0 / 2 * (x @ a.T) @ b.T + bias
        torch.testing.assert_close(model.get_submodule(path)(x), expected)


def test_only_the_adapters_of_the_targets_are_trained() -> None:
    for targets, parts in ((("attention",), (".mixer.", ".cross.")), (("feed_forward",), (".feedforward.",))):
        model = build("transformer: rotary")
        before = set(weights_of(model))
        add_adapters(model, LoraConfig(rank=1, targets=targets))
        assert set(frozen_weights(model)) == before
        assert trained_weights(model) and all(any(p in name for p in parts) for name in trained_weights(model))
        batch = batch_for("transformer: rotary", [(3, 4)])
        model(batch).square().sum().backward()
        assert {name for name, p in model.named_parameters() if p.grad is not None} == set(trained_weights(model))


def test_copies_for_decoding_have_the_adapters_merged() -> None:
    torch.manual_seed(2)
    model = models.build({"d_model": 256, "n_heads": 4, "d_ff": 256, "n_layers": 1, "dropout": 0.0}, VOCAB).eval()
    adapted, batch = with_adapters(model), collate_sources(SOURCES)
    merged = copy.deepcopy(adapted)
    merge_adapters(merged)
    config = DecodeConfig(beam=3)
    expected = decode(merged, batch, config)
    assert_same_hypotheses(decode(inference_copy(adapted), batch, config), expected)
    assert not any(".adapter." in name for name, _ in inference_copy(adapted).named_parameters())
    adapted_parameter = next(p for name, p in adapted.named_parameters() if name.endswith("adapter.b"))
    with torch.no_grad():
        adapted_parameter.zero_()
    other = inference_copy(adapted)
    assert not torch.equal(_first(other), _first(inference_copy(merged))), "renewed when an adapter changes"


def _first(model: nn.Module) -> Tensor:
    return torch.cat([buffer.flatten() for buffer in _matrices(model)])


def _matrices(model: nn.Module) -> list[Tensor]:
    return [module.weight for module in model.modules() if isinstance(getattr(module, "weight", None), Tensor)]


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(UserError, match="no attention layers"):
        add_adapters(build("rnn-rnn"), LoraConfig(rank=1, targets=("attention",)))
