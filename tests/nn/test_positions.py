"""Positions: vectors, rotation and bias, each against its equation."""

import math

import pytest
import torch
from torch import Tensor

from regard.errors import UserError
from regard.nn.attention import attend, attend_fused
from regard.nn.embedding import Add, Concatenate
from regard.nn.masks import causal_mask
from regard.nn.positions import LearnedPositions, SinusoidalPositions, alibi, distances, rotate, rotation, sinusoid


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_sinusoids_follow_the_formula() -> None:
    table = sinusoid(torch.arange(50), 12)
    for pos, i in ((0, 0), (1, 0), (7, 3), (49, 5)):
        angle = pos / 10000 ** (2 * i / 12)
        assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
        assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_the_first_two_sinusoids_of_the_lecture() -> None:
    expected = [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    torch.testing.assert_close(sinusoid(torch.arange(2), 4), torch.tensor(expected, dtype=torch.float64))


def test_sinusoidal_positions_continue_after_the_end_of_their_table() -> None:
    short, long = SinusoidalPositions(8, max_len=4), SinusoidalPositions(8, max_len=32)
    for n in (3, 12, 21):
        positions = torch.arange(n).view(1, n).flip(1)
        torch.testing.assert_close(short(n), long(n))
        torch.testing.assert_close(short.at(positions, n), long.at(positions, n))
        torch.testing.assert_close(long.at(positions, n)[0].flip(0), long(n))


def test_learned_positions_after_the_end_of_their_table_are_refused() -> None:
    positions = LearnedPositions(8, max_len=4)
    assert positions(4).shape == (4, 8)
    with pytest.raises(UserError, match="max_len"):
        positions(5)


def test_addition_is_a_special_case_of_concatenation() -> None:
    concatenate = Concatenate(6).double()
    with torch.no_grad():
        concatenate.mix.weight.copy_(torch.cat([torch.eye(6), torch.eye(6)], dim=1))
    x, p = rand(2, 5, 6), rand(5, 6)
    torch.testing.assert_close(concatenate(x, p), Add()(x, p))


def test_products_of_rotated_vectors_depend_on_the_distance_only() -> None:
    q, k = rand(1, 8), rand(1, 8)

    def at(x: torch.Tensor, *positions: int) -> torch.Tensor:
        return rotate(x, rotation(torch.tensor(positions), x.shape[-1], x.dtype))

    def product(i: int, j: int) -> float:
        return float(at(q, i) @ at(k, j).T)

    assert product(3, 1) == pytest.approx(product(12, 10), abs=1e-12)
    assert product(3, 1) != pytest.approx(product(4, 1), abs=1e-6)
    x = rand(6, 8)
    torch.testing.assert_close(at(x, *range(6)).norm(dim=-1), x.norm(dim=-1), msg="a rotation keeps lengths")


def test_alibi_is_the_bias_of_the_paper() -> None:
    bias = alibi(8, distances(2, 5, torch.device("cpu")), torch.float64)
    assert bias.shape == (8, 2, 5)
    for head in range(8):
        slope = 2.0 ** -(head + 1)
        assert bias[head, 1].tolist() == [-slope * (4 - j) for j in range(5)]
    q, k, v = rand(2, 8, 2, 4), rand(2, 8, 5, 4), rand(2, 8, 5, 4)
    expected, _ = attend(q, k, v, bias=bias, mask=causal_mask(2, 5))
    torch.testing.assert_close(attend_fused(q, k, v, causal_mask(2, 5), bias=bias), expected, rtol=0, atol=1e-12)
