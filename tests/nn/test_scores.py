"""Attention scores: each against its equation."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import regard
from regard.nn.scores import Additive, Bilinear, Cosine, Location


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def score_pairs(q: Tensor, k: Tensor, equation: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Apply an equation to every pair of a query and a key → [Tq, Tk]"""
    return torch.tensor([[equation(a, b).item() for b in k] for a in q], dtype=torch.float64)


def test_cosine() -> None:
    q, k = rand(3, 5), rand(4, 5)
    expected = score_pairs(q, k, lambda a, b: a @ b / (a.norm() * b.norm()))
    torch.testing.assert_close(Cosine()(q, k), expected)


def test_bilinear_with_queries_and_keys_of_different_widths() -> None:
    score = Bilinear(5, 3).double()
    q, k = rand(2, 5), rand(4, 3)
    torch.testing.assert_close(score(q, k), score_pairs(q, k, lambda a, b: a @ score.weight.weight @ b))


def test_additive() -> None:
    score = Additive(5, 3).double()
    q, k = rand(2, 5), rand(4, 3)
    expected = score_pairs(q, k, lambda a, b: score.out.weight[0] @ (score.query(a) + score.key(b)).tanh())
    torch.testing.assert_close(score(q, k), expected)


def test_location_is_linear_in_the_query_and_independent_of_the_keys() -> None:
    score = Location(5, max_len=6).double()
    q, k = rand(2, 5), rand(4, 3)
    expected = (q @ score.position_scores.weight.T + score.position_scores.bias)[:, :4]
    torch.testing.assert_close(score(q, k), expected)
    torch.testing.assert_close(score(q, k), score(q, rand(4, 3)))
    with pytest.raises(regard.UserError, match="7 tokens is longer than the 6 positions"):
        score(q, rand(7, 3))


def test_a_score_with_weights_must_be_passed_as_a_module() -> None:
    q, k, v = rand(2, 5), rand(4, 3), rand(4, 6)
    with pytest.raises(regard.UserError, match="Bilinear"):
        regard.attend(q, k, v, score="bilinear")
    assert regard.attend(q, k, v, score=Bilinear(5, 3).double())[0].shape == (2, 6)
