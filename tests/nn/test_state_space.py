"""The selective state space: the scan against a loop, the layer against its equations."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.state_space import SelectiveStateSpace, SsmState, parallel, scan, sequential

D = 8


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def make_layer(**options: int) -> SelectiveStateSpace:
    torch.manual_seed(0)
    return SelectiveStateSpace(D, **options).double()


def assert_close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


def run_steps(model: SelectiveStateSpace, x: Tensor, state: SsmState) -> tuple[Tensor, SsmState]:
    """Process x [B, T, D] one position at a time."""
    outputs = []
    for t in range(x.shape[1]):
        y, state = model.step(x[:, t : t + 1], state)
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


def scan_loop(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """The recurrence as it is defined"""
    states = []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, dim=1)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 200])
def test_scan_and_its_gradients_equal_the_loop(length: int) -> None:
    a, b, start = rand(2, length, 3, 4).sigmoid(), rand(2, length, 3, 4), rand(2, 3, 4)
    weight = rand(2, length, 3, 4)  # different for every state, so that no gradient cancels
    inputs = [x.requires_grad_() for x in (a, b, start)]
    got, expected = scan(*inputs), scan_loop(*inputs)
    assert_close(got, expected)
    pairs = zip(*(torch.autograd.grad((h * weight).sum(), inputs) for h in (got, expected)), strict=True)
    for ours, theirs in pairs:
        assert_close(ours, theirs)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 200])
def test_the_parallel_and_the_sequential_scan_equal_the_loop(length: int) -> None:
    a, b, start = rand(2, length, 3, 4).sigmoid(), rand(2, length, 3, 4), rand(2, 3, 4)
    assert_close(parallel(a, b, start), scan_loop(a, b, start))
    assert_close(sequential(a, b, start), scan_loop(a, b, start))


def test_the_scan_is_exact_when_products_underflow() -> None:
    a, b, start = torch.full((1, 200, 1, 1), 1e-30), torch.ones(1, 200, 1, 1), torch.ones(1, 1, 1)
    a.requires_grad_()
    h = scan(a, b, start)
    h.sum().backward()
    assert a.grad is not None
    assert torch.equal(h, torch.ones_like(h))
    assert torch.equal(a.grad, torch.ones_like(a))


def layer_equations(model: SelectiveStateSpace, u: Tensor) -> Tensor:
    """The equations of the layer, one position after the other"""
    x, z = model.in_proj(u).chunk(2, dim=-1)
    taps = model.conv_weight[:, None]  # [E, 1, W], the last for the position itself
    x = F.conv1d(F.pad(x.mT, (model.width - 1, 0)), taps, model.conv_bias, groups=len(taps)).mT
    x = x * x.sigmoid()
    dt, b, c = model.x_proj(x).split([model.rank, model.d_state, model.d_state], dim=-1)
    dt = (1 + (dt @ model.dt_proj.weight.T + model.dt_bias).exp()).log()
    h = x.new_zeros(x.shape[0], x.shape[2], model.d_state)
    outputs = []
    for t in range(x.shape[1]):
        decay = torch.exp(dt[:, t, :, None] * -model.a_log.exp())
        h = decay * h + (dt[:, t] * x[:, t])[:, :, None] * b[:, t, None, :]
        outputs.append(torch.einsum("ben,bn->be", h, c[:, t]) + model.skip * x[:, t])
    return (torch.stack(outputs, dim=1) * z * z.sigmoid()) @ model.out_proj.weight.T


@pytest.mark.parametrize("options", [{}, {"d_state": 3, "expand": 3, "width": 2}, {"width": 1}])
def test_forward_and_steps_equal_the_equations(options: dict[str, int]) -> None:
    model, x = make_layer(**options), rand(2, 70, D)
    expected = layer_equations(model, x)
    assert_close(model(x), expected)
    assert_close(run_steps(model, x, model.start(2, x))[0], expected)


def test_gradients_equal_those_of_the_equations() -> None:
    model, x = make_layer(), rand(2, 70, D)
    weight = rand(2, 70, D)
    ours, theirs = (
        torch.autograd.grad((y * weight).sum(), list(model.parameters())) for y in (model(x), layer_equations(model, x))
    )
    for got, expected in zip(ours, theirs, strict=True):
        assert_close(got, expected)


@pytest.mark.parametrize("t", [0, 3, 63, 64, 99])
def test_the_output_depends_on_earlier_positions_only(t: int) -> None:
    model, x = make_layer(), rand(1, 100, D)
    changed = x.clone()
    changed[:, t] += 1
    before, after = model(x), model(changed)
    assert_close(after[:, :t], before[:, :t])
    assert (after[:, t] - before[:, t]).abs().max() > 1e-6


def test_padding_on_the_right_has_no_effect() -> None:
    model, x = make_layer(), rand(2, 50, D)
    assert_close(model(torch.cat([x, rand(2, 30, D)], dim=1))[:, :50], model(x))


def test_a_row_alone_equals_the_row_in_a_batch() -> None:
    model, x = make_layer(), rand(3, 70, D)
    assert_close(torch.cat([model(row[None]) for row in x]), model(x))


def test_selected_rows_continue_as_before() -> None:
    model, x = make_layer(), rand(3, 10, D)
    rows = torch.tensor([2, 0, 2, 1])
    _, state = run_steps(model, x[:, :6], model.start(3, x))
    got, _ = run_steps(model, x[rows, 6:], state.select(rows))
    assert_close(got, model(x)[rows, 6:])


def test_the_state_does_not_grow() -> None:
    model, x = make_layer(), rand(2, 100, D)
    with torch.no_grad():
        _, one = run_steps(model, x[:, :1], model.start(2, x))
        _, hundred = run_steps(model, x, model.start(2, x))
    for state in (model.start(2, x), one, hundred):
        assert [tuple(part.shape) for part in state] == [(2, 2 * D, 3), (2, 2 * D, 16)]
        assert all(part.dtype == torch.float64 for part in state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_a_long_input_are_finite(dtype: torch.dtype) -> None:
    model = make_layer().to(dtype)
    x = (10 * rand(1, 300, D)).to(dtype).requires_grad_()
    model(x).square().sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all() and p.grad.abs().max() > 0, name


def test_initial_step_sizes_and_decays_are_those_of_the_paper() -> None:
    model = make_layer()
    dt = F.softplus(model.dt_bias)
    assert dt.min() >= 1e-3 * 0.999 and dt.max() <= 1e-1 * 1.001
    torch.testing.assert_close(-model.a_log.exp(), -torch.arange(1.0, 17).double().expand(2 * D, 16))


def test_autocast_keeps_the_recurrence_in_float32() -> None:
    model, x = make_layer().float(), rand(2, 70, D).float()
    expected = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        at_once = model(x)
        stepped, state = run_steps(model, x, model.start(2, x.bfloat16()))
    assert at_once.dtype == stepped.dtype == torch.bfloat16
    assert state.ssm.dtype == torch.float32
    scale = expected.abs().max().item()
    for y in (at_once, stepped):
        torch.testing.assert_close(y.float(), expected, rtol=0, atol=0.03 * scale)


def test_one_compiled_graph_for_all_lengths_within_a_chunk() -> None:
    graphs = 0

    def backend(graph: Any, _: object) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    model = make_layer()
    compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    for length in (20, 37, 63):
        x = rand(2, length, D)
        assert_close(compiled(x), model(x))
    assert graphs == 1
