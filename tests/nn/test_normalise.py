"""Normalisers: each against its equation."""

import pytest
import torch

from regard.errors import UserError
from regard.nn.attention import attend
from regard.nn.normalise import Normaliser, hardmax, softmax


def test_normalisers() -> None:
    q, k = (torch.randn(n, 4, dtype=torch.float64).abs() for n in (2, 3))
    v = torch.randn(3, 2, dtype=torch.float64)
    e = q @ k.T
    mask = torch.tensor([[True, True, False], [True, True, True]])
    for name, expected in (
        ("softmax", torch.where(mask, e.exp(), 0) / torch.where(mask, e.exp(), 0).sum(-1, keepdim=True)),
        ("sum", torch.where(mask, e, 0) / torch.where(mask, e, 0).sum(-1, keepdim=True)),
        ("none", torch.where(mask, e, 0)),
        ("exp", torch.where(mask, e.exp(), 0)),
    ):
        output, weights = attend(q, k, v, score="dot", mask=mask, normalise=name)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(output, expected @ v)


def test_hardmax_is_the_limit_of_softmax_as_the_scores_grow() -> None:
    e = torch.tensor([[1.0, 2.0, 1.5, 9.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False]])
    hard = hardmax(e, mask)
    assert hard.tolist() == [[0, 1, 0, 0]]
    distances = [float((softmax(scale * e, mask) - hard).abs().max()) for scale in (1, 10, 100)]
    assert distances == sorted(distances, reverse=True) and distances[-1] < 1e-12


def test_hardmax_takes_the_first_of_equal_scores() -> None:
    assert hardmax(torch.ones(3), None).tolist() == [1, 0, 0]


def test_hardmax_has_the_gradient_of_softmax() -> None:
    def gradient(normaliser: Normaliser) -> torch.Tensor:
        e = torch.tensor([0.3, 0.1, -0.4], dtype=torch.float64, requires_grad=True)
        (normaliser(e, None) @ torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)).backward()
        assert e.grad is not None
        return e.grad

    torch.testing.assert_close(gradient(hardmax), gradient(softmax))


def test_an_unknown_normaliser_is_refused_with_the_known_ones() -> None:
    x = torch.ones(2, 2)
    with pytest.raises(UserError, match="softmax, hardmax, sum, none, exp"):
        attend(x, x, x, normalise="sumn")
