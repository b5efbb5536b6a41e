import math

import pytest
import torch

from regard.errors import UserError
from regard.nn.embedding import Add, Concatenate
from regard.nn.positions import LearnedPositions, SinusoidalPositions, sinusoid


def test_sinusoid_is_the_formula() -> None:
    table = sinusoid(torch.arange(50), 12)
    for pos, i in ((0, 0), (1, 0), (7, 3), (49, 5)):
        angle = pos / 10000 ** (2 * i / 12)
        assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
        assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_lecture_positions_of_i_love_you() -> None:
    expected = [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    torch.testing.assert_close(sinusoid(torch.arange(2), 4), torch.tensor(expected, dtype=torch.float64))


def test_sinusoidal_positions_go_on_past_their_table() -> None:
    short, long = SinusoidalPositions(8, max_len=4), SinusoidalPositions(8, max_len=32)
    for start, n in ((0, 3), (2, 10), (20, 1)):
        torch.testing.assert_close(short(start, n), long(start, n))


def test_learned_positions_refuse_to_go_past_their_table() -> None:
    positions = LearnedPositions(8, max_len=4)
    assert positions(1, 3).shape == (3, 8)
    with pytest.raises(UserError, match="max_len"):
        positions(2, 3)


def test_adding_is_a_case_of_concatenating() -> None:
    concatenate = Concatenate(6).double()
    with torch.no_grad():
        concatenate.mix.weight.copy_(torch.cat([torch.eye(6), torch.eye(6)], dim=1))
    x, p = torch.randn(2, 5, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    torch.testing.assert_close(concatenate(x, p), Add()(x, p))
