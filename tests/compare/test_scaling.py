"""`regard bench scaling`: what is measured, and how it grows."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.compare.scaling import LAYERS, exponent, measure_scaling, save_scaling, saved_bytes
from tests.cli.command import failed_in_one_line, regard


def test_the_exponent_is_fitted_to_the_upper_half_of_the_lengths() -> None:
    lengths = [1, 2, 4, 8, 16, 32]
    assert exponent(lengths, [5.0, 5.0, 5.0, *(n**3 for n in lengths[3:])]) == pytest.approx(3.0)
    assert exponent([8], [1.0]) is None


def test_saved_bytes_equal_a_count_by_hand() -> None:
    class Square(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 1  # [1, L, 64], saved once although it is both factors
            return y * y

    x = torch.zeros(1, 10, 64, requires_grad=True)
    assert saved_bytes(Square(), x) == 4 * 10 * 64
    assert saved_bytes(nn.Identity(), x) == 0
    assert saved_bytes(nn.Linear(64, 64), x) == 0  # input and weight are not counted


def test_every_layer_is_causal_and_keeps_the_shape() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 70, 64)
    other = x.clone()
    other[:, 40:] = 0
    for name, make in LAYERS.items():
        layer = make()
        y = layer(x)
        assert y.shape == x.shape, name
        assert torch.allclose(y[:, :40], layer(other)[:, :40], atol=1e-5), name
        assert not torch.allclose(y[:, 40:], layer(other)[:, 40:], atol=1e-3), name


def test_memory_of_plain_attention_grows_quadratically_and_of_the_others_linearly(tmp_path: Path) -> None:
    curves = measure_scaling([256, 512, 1024], max_seconds=20, device="cpu")
    by_name = {curve.name: curve for curve in curves}
    assert by_name.keys() == LAYERS.keys()
    assert all(curve.lengths[:2] == [256, 512] and min(curve.seconds) > 0 for curve in curves)
    plain = by_name["attention, plain"]
    assert plain.time_exponent is not None and plain.time_exponent > 0
    assert plain.memory_exponent is not None and 1.6 < plain.memory_exponent < 2.1
    for name in ("GRU", "attention, fused", "linear attention"):
        growth = by_name[name].memory_exponent
        assert growth is not None and 0.9 < growth < 1.2, name
    text, paths = save_scaling(curves, tmp_path / "out")
    assert [path.name for path in paths] == ["scaling.json", "scaling.png", "scaling.svg"]
    tree = json.loads(paths[0].read_text())
    assert [row["memory_exponent"] for row in tree] == [curve.memory_exponent for curve in curves]
    assert all(name in text for name in LAYERS)


def test_long_lengths_are_left_out_when_time_is_up() -> None:
    assert all(len(curve.lengths) < 4 for curve in measure_scaling([64, 128, 256, 512], max_seconds=1e-6))


def test_lengths_must_increase(tmp_path: Path) -> None:
    assert "64,32" in failed_in_one_line(regard("bench", "scaling", "--out", tmp_path, "--lengths", "64,32"))
