"""Muon equals its definition: the averaged gradient with all singular values set to about 1."""

import pytest
import torch
from torch import nn

from regard import models
from regard.train.muon import Muon, hidden_matrices, orthogonalise
from regard.train.optim import OptimConfig, Optimizer
from regard.train.recipe import load_recipe


@pytest.mark.parametrize("shape", [(8, 8), (16, 4), (3, 5, 20)])
def test_the_iteration_keeps_directions_and_sets_singular_values_to_about_1(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    g = torch.randn(shape, dtype=torch.float64)
    u, _, vh = torch.linalg.svd(g, full_matrices=False)
    result = orthogonalise(g)
    inner = u.mT @ result @ vh.mT  # diagonal, because directions are kept
    values = inner.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(inner, torch.diag_embed(values), atol=1e-9, rtol=0)
    assert values.min() > 0.5 and values.max() < 1.3


def one_layer(bias: bool = True) -> nn.Linear:
    torch.manual_seed(1)
    layer = nn.Linear(6, 4, bias=bias)
    layer.weight.grad = torch.randn_like(layer.weight)
    return layer


def test_matrices_of_one_shape_are_updated_as_if_alone() -> None:
    pair = nn.ModuleList([one_layer(), one_layer()])
    pair[1].weight.grad = torch.randn(4, 6)
    alone = nn.Linear(6, 4)
    alone.load_state_dict(pair[1].state_dict())
    alone.weight.grad = pair[1].weight.grad
    good = torch.tensor(False)
    for module in (pair, alone):
        with torch.no_grad():
            Muon(hidden_matrices(module), 0.1).step(0.1, torch.tensor(2.0), good)
    torch.testing.assert_close(pair[1].weight, alone.weight)


def test_in_half_precision_the_update_is_nearly_the_same() -> None:
    layers = [one_layer(bias=False) for _ in range(2)]
    for layer, half in zip(layers, (False, True), strict=True):
        Optimizer(layer, OptimConfig(optimizer="muon"), half=half).step(0.1)
    assert not torch.equal(layers[0].weight, layers[1].weight)
    torch.testing.assert_close(layers[0].weight, layers[1].weight, atol=2e-3, rtol=0)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    layer = one_layer(bias=False)
    optimizer = Optimizer(layer, OptimConfig(optimizer="muon", weight_decay=0.1))
    optimizer.step(1e-2)
    before = [layer.weight.detach().clone(), *(m.clone() for m in optimizer.muon.momentum.values())]
    layer.weight.grad = torch.full_like(layer.weight, float("nan"))
    optimizer.step(1e-2)
    after = [layer.weight.detach(), *optimizer.muon.momentum.values()]
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True)) and int(optimizer.skipped[0]) == 1


@pytest.mark.parametrize("name", ["small", "rnn", "gpt"])
def test_embeddings_norms_biases_and_the_output_layer_are_left_to_adam(name: str) -> None:
    model = models.build(load_recipe(name).model, 50)
    names = {id(p): n for n, p in model.named_parameters()}
    chosen = {names[id(p)] for p in hidden_matrices(model)}
    assert chosen and not any(part in n for n in chosen for part in ("tokens", "norm", "bias", "output.", "positions"))


def test_two_updates_equal_the_definition() -> None:
    layer = one_layer(bias=False)
    first, second = torch.randn(2, 4, 6)
    weight, mean, rate = layer.weight.detach().clone(), torch.zeros(4, 6), 0.01 * 0.2 * 6**0.5
    optimizer = Optimizer(layer, OptimConfig(optimizer="muon", clip=0.0))
    for g in (first, second):
        layer.weight.grad = g
        optimizer.step(0.01)
        mean = 0.95 * mean + 0.05 * g
        weight -= rate * orthogonalise(0.05 * g + 0.95 * mean)
    torch.testing.assert_close(layer.weight.detach(), weight)
