from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.state_space import SelectiveStateSpace, SsmState, parallel, scan, sequential

D = 8


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def layer(**options: int) -> SelectiveStateSpace:
    torch.manual_seed(0)
    return SelectiveStateSpace(D, **options).double()


def assert_close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


def steps(model: SelectiveStateSpace, x: Tensor, state: SsmState) -> tuple[Tensor, SsmState]:
    outputs = []
    for t in range(x.shape[1]):
        y, state = model.step(x[:, t : t + 1], state)
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


def loop(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """The recurrence word for word."""
    states = []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, dim=1)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 200])
def test_scan_and_its_gradients_equal_the_loop(length: int) -> None:
    a, b, start = rand(2, length, 3, 4).sigmoid(), rand(2, length, 3, 4), rand(2, 3, 4)
    weight = rand(2, length, 3, 4)  # another one for every state, so that no gradient cancels
    inputs = [x.requires_grad_() for x in (a, b, start)]
    got, expected = scan(*inputs), loop(*inputs)
    assert_close(got, expected)
    pairs = zip(*(torch.autograd.grad((h * weight).sum(), inputs) for h in (got, expected)), strict=True)
    for ours, theirs in pairs:
        assert_close(ours, theirs)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 200])
def test_the_parallel_form_equals_the_steps(length: int) -> None:
    a, b, start = rand(2, length, 3, 4).sigmoid(), rand(2, length, 3, 4), rand(2, 3, 4)
    assert_close(parallel(a, b, start), loop(a, b, start))
    assert_close(sequential(a, b, start), loop(a, b, start))


def test_scan_outlives_products_that_underflow() -> None:
    a, b, start = torch.full((1, 200, 1, 1), 1e-30), torch.ones(1, 200, 1, 1), torch.ones(1, 1, 1)
    a.requires_grad_()
    h = scan(a, b, start)
    h.sum().backward()
    assert a.grad is not None
    assert torch.equal(h, torch.ones_like(h))
    assert torch.equal(a.grad, torch.ones_like(a))


def equation(model: SelectiveStateSpace, u: Tensor) -> Tensor:
    """The layer by its definition, one position after the other."""
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
def test_forward_and_steps_equal_the_equation(options: dict[str, int]) -> None:
    model, x = layer(**options), rand(2, 70, D)
    expected = equation(model, x)
    assert_close(model(x), expected)
    assert_close(steps(model, x, model.start(2, x))[0], expected)


def test_gradients_equal_those_of_the_equation() -> None:
    model, x = layer(), rand(2, 70, D)
    weight = rand(2, 70, D)
    ours, theirs = (
        torch.autograd.grad((y * weight).sum(), list(model.parameters())) for y in (model(x), equation(model, x))
    )
    for got, expected in zip(ours, theirs, strict=True):
        assert_close(got, expected)


@pytest.mark.parametrize("t", [0, 3, 63, 64, 99])
def test_forward_is_causal(t: int) -> None:
    model, x = layer(), rand(1, 100, D)
    changed = x.clone()
    changed[:, t] += 1
    before, after = model(x), model(changed)
    assert_close(after[:, :t], before[:, :t])
    assert (after[:, t] - before[:, t]).abs().max() > 1e-6


def test_right_padding_changes_nothing_before_it() -> None:
    model, x = layer(), rand(2, 50, D)
    assert_close(model(torch.cat([x, rand(2, 30, D)], dim=1))[:, :50], model(x))


def test_alone_equals_in_a_batch() -> None:
    model, x = layer(), rand(3, 70, D)
    assert_close(torch.cat([model(row[None]) for row in x]), model(x))


def test_selected_rows_go_on_as_they_would_have() -> None:
    model, x = layer(), rand(3, 10, D)
    rows = torch.tensor([2, 0, 2, 1])
    _, state = steps(model, x[:, :6], model.start(3, x))
    got, _ = steps(model, x[rows, 6:], state.select(rows))
    assert_close(got, model(x)[rows, 6:])


def test_state_is_as_large_after_a_hundred_steps_as_after_one() -> None:
    model, x = layer(), rand(2, 100, D)
    with torch.no_grad():
        _, one = steps(model, x[:, :1], model.start(2, x))
        _, hundred = steps(model, x, model.start(2, x))
    for state in (model.start(2, x), one, hundred):
        assert [tuple(part.shape) for part in state] == [(2, 2 * D, 3), (2, 2 * D, 16)]
        assert all(part.dtype == torch.float64 for part in state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_over_a_long_input(dtype: torch.dtype) -> None:
    model = layer().to(dtype)
    x = (10 * rand(1, 300, D)).to(dtype).requires_grad_()
    model(x).square().sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all() and p.grad.abs().max() > 0, name


def test_initial_steps_and_decays_are_those_of_the_paper() -> None:
    model = layer()
    dt = F.softplus(model.dt_bias)
    assert dt.min() >= 1e-3 * 0.999 and dt.max() <= 1e-1 * 1.001
    torch.testing.assert_close(-model.a_log.exp(), -torch.arange(1.0, 17).double().expand(2 * D, 16))


def test_autocast_keeps_the_recurrence_in_float32() -> None:
    model, x = layer().float(), rand(2, 70, D).float()
    expected = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole = model(x)
        stepped, state = steps(model, x, model.start(2, x.bfloat16()))
    assert whole.dtype == stepped.dtype == torch.bfloat16
    assert state.ssm.dtype == torch.float32
    scale = expected.abs().max().item()
    for y in (whole, stepped):
        torch.testing.assert_close(y.float(), expected, rtol=0, atol=0.03 * scale)


def test_compiles_whole_and_once_for_all_lengths_of_a_chunk() -> None:
    graphs = 0

    def backend(graph: Any, _: object) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    model = layer()
    compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    for length in (20, 37, 63):
        x = rand(2, length, D)
        assert_close(compiled(x), model(x))
    assert graphs == 1
