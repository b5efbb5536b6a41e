"""Stages of a selective state space: convolution, step sizes, states, gate."""

import torch

from regard.models.stages.calls import ModuleCalls
from regard.models.stages.stage import BlockRecord
from regard.nn.mixers import BidirectionalStateSpace, StateSpace, Window
from regard.nn.state_space import SelectiveStateSpace, scan


def state_space_stages(
    record: BlockRecord, calls: ModuleCalls, part: str, mixer: StateSpace | BidirectionalStateSpace, x: str
) -> str:
    forward = _one_direction(record, calls, f"{part}.forward", mixer.left_to_right, x)
    if isinstance(mixer, StateSpace):
        return forward
    space = mixer.right_to_left
    reversed_ = record.stage(f"{part}.reversed", "reverse", (x,), calls.input(space))
    backward = _one_direction(record, calls, f"{part}.backward", space, reversed_)
    output = calls.last(mixer).output[0][0]
    again = record.stage(f"{part}.unreversed", "reverse", (backward,), calls.output(space).flip(0))
    return record.stage(f"{part}.out", "add", (forward, again), output)


def _one_direction(record: BlockRecord, calls: ModuleCalls, name: str, space: SelectiveStateSpace, x: str) -> str:
    inner, n, rank = space.skip.shape[0], space.d_state, space.rank
    projected = calls.output(space.in_proj)
    both = record.linear(f"{name}.in", x, projected, space.in_proj.weight, None)
    branch = _columns(record, f"{name}.x", both, 0, inner)
    gate = _columns(record, f"{name}.gate", both, inner, 2 * inner)
    convolved = calls.input(space.x_proj)
    weights = {"weight": (space.conv_weight, ("width", "offset")), "bias": (space.conv_bias, ("width",))}
    conv = record.stage(f"{name}.conv", "causal-convolution", (branch,), convolved, weights=weights, activation="silu")
    selected = record.linear(f"{name}.selected", conv, calls.output(space.x_proj), space.x_proj.weight, None)
    low = _columns(record, f"{name}.low", selected, 0, rank)
    b = _columns(record, f"{name}.B", selected, rank, rank + n)
    c = _columns(record, f"{name}.C", selected, rank + n, rank + 2 * n)
    dt = record.linear(f"{name}.dt", low, calls.output(space.dt_proj), space.dt_proj.weight, None)
    a_bar, b_bar, c_values = space._discretise(convolved[None])
    delta = torch.nn.functional.softplus(calls.output(space.dt_proj).to(space.dt_bias.dtype) + space.dt_bias)
    step = record.stage(f"{name}.delta", "softplus", (dt,), delta, weights={"bias": (space.dt_bias, ("width",))})
    states = scan(a_bar, b_bar, torch.zeros_like(b_bar[:, 0]))
    record.stage(
        f"{name}.states",
        "scan",
        (step, b, conv),
        states[0],
        (record.rows, "width", "state"),
        {"a_log": (space.a_log, ("width", "state"))},
    )
    y = space._read(convolved[None], states, c_values)[0]
    skip = {"skip": (space.skip, ("width",))}
    record.stage(f"{name}.y", "read-state", (f"{name}.states", c, conv), y, weights=skip)
    activated = torch.nn.functional.silu(record.values[gate].tensor)
    record.stage(f"{name}.open", "activation", (gate,), activated, activation="silu")
    gated = record.stage(f"{name}.gated", "multiply", (f"{name}.y", f"{name}.open"), calls.input(space.out_proj))
    return record.linear(f"{name}.out", gated, calls.output(space.out_proj), space.out_proj.weight, None)


def _columns(record: BlockRecord, name: str, of: str, start: int, end: int) -> str:
    return record.stage(name, "columns", (of,), record.values[of].tensor[:, start:end], start=start, end=end)


def window_stages(record: BlockRecord, calls: ModuleCalls, part: str, mixer: Window, x: str) -> str:
    """Add the concatenation of the last inputs, and the linear map of it."""
    seen = record.stage(f"{part}.inputs", "window", (x,), calls.input(mixer.join), window=mixer.window)
    return record.linear(f"{part}.out", seen, calls.output(mixer.join), mixer.join.weight, mixer.join.bias)
