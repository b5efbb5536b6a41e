"""Stages of recurrent layers: the gates and states of every position.

torch computes whole sequences in one kernel that returns the states of the last layer only. Gates, cell states and the
states of lower layers are computed here from the same inputs and weights.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.models.stages.stage import BlockRecord

_GATES = {"gru": ("reset", "update"), "lstm": ("input", "forget", "candidate", "output"), "rnn": ()}


def recurrent_stages(
    record: BlockRecord, part: str, rnn: nn.RNNBase, layer: int, x: str, start: str | None, states: Tensor | None
) -> str:
    """Add one layer of a recurrence over the value x, from the state `start` or zeros; return its states.

    `states` [T, H] are the model's own, if they are known.
    """
    weights = {name: getattr(rnn, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    inputs = record.values[x].tensor
    h = torch.zeros(rnn.hidden_size, dtype=inputs.dtype, device=inputs.device)
    if start is not None:
        h = record.values[start].tensor
    run = _run(rnn.mode, inputs, h, weights)
    states = run["states"] if states is None else states
    previous = torch.cat([h[None], states[:-1]])
    before = record.stage(
        f"{part}.previous", "shift", (f"{part}.states", *([] if start is None else [start])), previous
    )
    from_input = record.linear(
        f"{part}.from_input", x, run["from_input"], weights["weight_ih"], weights["bias_ih"], "gate"
    )
    from_state = record.linear(
        f"{part}.from_state", before, run["from_state"], weights["weight_hh"], weights["bias_hh"], "gate"
    )
    both = (from_input, from_state)
    match rnn.mode:
        case "GRU":
            return _gru(record, part, both, before, run, states)
        case "LSTM":
            return _lstm(record, part, both, run, states)
    n = rnn.hidden_size
    return record.stage(f"{part}.states", "gate", both, states, activation="tanh", start=0, end=n)


def _gru(
    record: BlockRecord, part: str, both: tuple[str, str], before: str, run: dict[str, Tensor], states: Tensor
) -> str:
    n = states.shape[1]
    for i, name in enumerate(_GATES["gru"]):
        settings: dict[str, Any] = {"activation": "sigmoid", "start": i * n, "end": (i + 1) * n}
        record.stage(f"{part}.{name}", "gate", both, run[name], **settings)
    candidate = (*both, f"{part}.reset")
    record.stage(f"{part}.candidate", "gru-candidate", candidate, run["candidate"], start=2 * n, end=3 * n)
    parts = (f"{part}.update", f"{part}.candidate", before)
    return record.stage(f"{part}.states", "gru-state", parts, states)


def _lstm(record: BlockRecord, part: str, both: tuple[str, str], run: dict[str, Tensor], states: Tensor) -> str:
    n = states.shape[1]
    for i, name in enumerate(_GATES["lstm"]):
        activation = "tanh" if name == "candidate" else "sigmoid"
        settings: dict[str, Any] = {"activation": activation, "start": i * n, "end": (i + 1) * n}
        record.stage(f"{part}.{name}", "gate", both, run[name], **settings)
    record.stage(f"{part}.previous_cell", "shift", (f"{part}.cell",), run["previous_cell"])
    names = ("forget", "previous_cell", "input", "candidate")
    record.stage(f"{part}.cell", "lstm-cell", tuple(f"{part}.{name}" for name in names), run["cell"])
    return record.stage(f"{part}.states", "lstm-state", (f"{part}.output", f"{part}.cell"), states)


def _run(mode: str, x: Tensor, h: Tensor, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Compute all gates and states, position by position;  x [T, D], h [H]"""
    c, columns = torch.zeros_like(h), dict[str, list[Tensor]]()
    from_input = x @ weights["weight_ih"].T + weights["bias_ih"]
    for row in from_input:
        from_state = weights["weight_hh"] @ h + weights["bias_hh"]
        values = {"from_state": from_state}
        if mode == "GRU":
            (ri, zi, ni), (rh, zh, nh) = row.chunk(3), from_state.chunk(3)
            reset, update = (ri + rh).sigmoid(), (zi + zh).sigmoid()
            candidate = (ni + reset * nh).tanh()
            h = (1 - update) * candidate + update * h
            values |= {"reset": reset, "update": update, "candidate": candidate}
        elif mode == "LSTM":
            gates = (row + from_state).chunk(4)
            i, f, g, o = gates[0].sigmoid(), gates[1].sigmoid(), gates[2].tanh(), gates[3].sigmoid()
            values |= {"input": i, "forget": f, "candidate": g, "output": o, "previous_cell": c}
            c = f * c + i * g
            h = o * c.tanh()
            values["cell"] = c
        else:
            h = (row + from_state).tanh()
        for name, value in {**values, "states": h}.items():
            columns.setdefault(name, []).append(value)
    return {"from_input": from_input, **{name: torch.stack(values) for name, values in columns.items()}}
