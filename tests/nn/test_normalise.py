"""Normalisers: each against its equation."""

import pytest
import torch

from regard.errors import UserError
from regard.nn.attention import attend


def test_normalisers() -> None:
    q, k = (torch.randn(n, 4, dtype=torch.float64).abs() for n in (2, 3))
    v = torch.randn(3, 2, dtype=torch.float64)
    e = q @ k.T
    mask = torch.tensor([[True, True, False], [True, True, True]])
    for name, expected in (
        ("softmax", torch.where(mask, e.exp(), 0) / torch.where(mask, e.exp(), 0).sum(-1, keepdim=True)),
        ("sum", torch.where(mask, e, 0) / torch.where(mask, e, 0).sum(-1, keepdim=True)),
        ("none", torch.where(mask, e, 0)),
    ):
        output, weights = attend(q, k, v, score="dot", mask=mask, normalise=name)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(output, expected @ v)


def test_an_unknown_normaliser_is_refused_with_the_known_ones() -> None:
    x = torch.ones(2, 2)
    with pytest.raises(UserError, match="softmax, sum, none"):
        attend(x, x, x, normalise="sumn")
