"""The fused kernels equal the equations. They need a GPU, or Triton with TRITON_INTERPRET=1."""

import importlib.util
import os

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.columns import split_columns
from regard.nn.positions import ROPE_BASE, rotate, rotation
from regard.text.vocab import PAD
from regard.train.loss import LossConfig, loss_from_logits

HAS_TRITON = importlib.util.find_spec("triton") is not None
INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"
needs_triton = pytest.mark.skipif(
    not INTERPRETED and not (HAS_TRITON and torch.cuda.is_available()), reason="needs Triton and a GPU"
)
DEVICE = "cpu" if INTERPRETED else "cuda"


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def assert_same_gradients(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-4)


@needs_triton
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
@pytest.mark.parametrize("n_words", [37, 5000])
def test_the_fused_loss_equals_the_equation(n_words: int, r_drop: float) -> None:
    from regard.nn.kernels.cross_entropy import FusedCrossEntropy

    torch.manual_seed(0)
    targets = torch.randint(6, n_words, (2, 5), device=DEVICE)
    targets[1, 3:] = PAD
    targets = torch.cat([targets, targets])
    ours, theirs = leaves(*[3 * torch.randn(4, 5, n_words, device=DEVICE)] * 2)
    found = FusedCrossEntropy.apply(ours * 1, targets, 0.1, r_drop, PAD)
    expected = loss_from_logits(theirs * 1, targets, LossConfig(r_drop=r_drop))
    torch.testing.assert_close(found, expected)
    for loss, _ in (found, expected):
        (loss * 3).backward()
    assert_same_gradients([ours], [theirs])


@needs_triton
@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("centred", [True, False], ids=["layer", "rms"])
def test_the_fused_residual_equals_the_equation(centred: bool, p: float) -> None:
    from regard.nn.kernels.residual_norm import DropoutPlace, FusedResidual, FusedResidualNorm

    torch.manual_seed(0)
    seed = torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32, device=DEVICE)
    place = DropoutPlace(p, seed, 3) if p else None
    given = [*(2 * torch.randn(2, 7, 30, 48, device=DEVICE) + 1), *torch.randn(2, 48, device=DEVICE)]
    given = given if centred else given[:3]
    ours, theirs = leaves(*given), leaves(*given)
    total, out = FusedResidualNorm.apply(*ours, *(() if centred else (None,)), 1e-5, place)
    factors = FusedResidual.apply(torch.zeros_like(total), torch.ones_like(total), place)
    assert set(factors.unique().tolist()) <= {0.0, factors.max().item()}
    assert abs((factors == 0).float().mean().item() - p) < 0.05
    plain = theirs[0] + factors * theirs[1]
    norm = F.layer_norm(plain, (48,), *theirs[2:]) if centred else F.rms_norm(plain, (48,), theirs[2], 1e-5)
    torch.testing.assert_close((total, out), (plain, norm))
    weights = torch.randn(2, *total.shape, device=DEVICE)
    for one, other in ((total, out), (plain, norm)):
        torch.autograd.backward([one, other], list(weights))
    assert_same_gradients(ours, theirs)


@needs_triton
@pytest.mark.parametrize("n", [5, 600])
def test_fused_linear_maps_equal_the_equation(n: int) -> None:
    from regard.nn.kernels.linear import FusedLinear, FusedLinearGelu

    torch.manual_seed(0)
    given = [torch.randn(2, n, 24, device=DEVICE), torch.randn(140, 24, device=DEVICE), torch.randn(140, device=DEVICE)]
    for fused, plain in ((FusedLinear, F.linear), (FusedLinearGelu, lambda *inputs: F.gelu(F.linear(*inputs)))):
        ours, theirs = leaves(*given), leaves(*given)
        found, expected = fused.apply(*ours), plain(*theirs)
        torch.testing.assert_close(found, expected)
        weights = torch.randn_like(found)
        for output in (found, expected):
            (output * weights).sum().backward()
        assert_same_gradients(ours, theirs)


@needs_triton
@pytest.mark.parametrize(("causal", "masked", "n"), [(False, False, 5), (True, False, 20), (False, True, 33)])
def test_fused_short_attention_equals_the_equation(causal: bool, masked: bool, n: int) -> None:
    from regard.nn.kernels.short_attention import FusedShortAttention

    torch.manual_seed(0)
    lengths = torch.tensor([n, 3, 1], device=DEVICE)
    mask = (torch.arange(n, device=DEVICE) < lengths[:, None])[:, None, None] if masked else None
    ours, theirs = leaves(*[torch.randn(3, n, 96, device=DEVICE)] * 2)

    def heads(x: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (2, 16)).transpose(1, 2) for part in split_columns(x * 1, [32] * 3)]

    found = FusedShortAttention.apply(*heads(ours), mask, causal)
    expected = F.scaled_dot_product_attention(*heads(theirs), mask, is_causal=causal)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    for output in (found, expected):
        (output * weights).sum().backward()
    assert_same_gradients([ours], [theirs])


@needs_triton
@pytest.mark.parametrize(("n_heads", "width", "rest"), [(8, 64, 256), (3, 16, 16), (2, 8, 0)])
def test_fused_rotation_equals_the_equation(n_heads: int, width: int, rest: int) -> None:
    from regard.nn.kernels.rotation import FusedRotation

    torch.manual_seed(0)
    ours, theirs = leaves(*[torch.randn(2, 300, n_heads * width + rest, device=DEVICE)] * 2)
    heads, others = theirs.split([n_heads * width, rest], dim=-1)
    heads = heads.unflatten(-1, (n_heads, width)).transpose(1, 2)
    angles = rotation(torch.arange(300, device=DEVICE), width, heads.dtype)
    expected = torch.cat([rotate(heads, angles).transpose(1, 2).flatten(2), others], dim=-1)
    found = FusedRotation.apply(ours * 1, n_heads, width, ROPE_BASE)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for y in (found, expected):
        (y * torch.linspace(-1, 1, y.shape[-1], device=DEVICE)).sum().backward()
    assert_same_gradients([ours], [theirs])


def test_gradients_of_columns_that_lie_side_by_side_are_not_copied() -> None:
    x = torch.randn(2, 3, 12, requires_grad=True)
    whole = torch.randn(2, 3, 12)
    copied = [part.clone() for part in whole.split([2, 4, 6], dim=-1)]
    for parts in (whole.split([2, 4, 6], dim=-1), copied):
        [gradient] = torch.autograd.grad(split_columns(x, [2, 4, 6]), x, parts)
        assert torch.equal(gradient, whole)
        assert (gradient.data_ptr() == whole.data_ptr()) == (parts is not copied)
