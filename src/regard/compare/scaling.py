"""Time and memory of one layer against the length of the sequence, with the exponents they grow by."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.files import write_atomically
from regard.nn.attention import Heads, SelfAttention
from regard.nn.mixers import LinearAttention, StateSpace
from regard.nn.recurrent import Recurrent
from regard.pipelines.translator import device_named
from regard.visualize.figure import can_draw, new_figure, save_figure

D_MODEL, N_HEADS = 64, 4
_REPEATS = 5
_HEADS = Heads(D_MODEL, N_HEADS)
_MARKERS = "osD^v"


class Plain(nn.Module):
    """Causal attention by its equation, which holds all the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = SelfAttention(_HEADS, causal=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.attention(x, need_trace=True)[0]
        return y


class First(nn.Module):
    """A layer that gives a pair, of which the first is its output."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)[0]
        return y


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GRU": lambda: First(Recurrent("gru", D_MODEL, D_MODEL, 1, 0.0)),
    "attention, plain": Plain,
    "attention, fused": lambda: First(SelfAttention(_HEADS, causal=True)),
    "linear attention": lambda: First(LinearAttention(_HEADS, causal=True, feature="elu")),
    "state space": lambda: First(StateSpace(D_MODEL, d_state=16)),
}
"""All of them causal, d_model 64 and 4 heads, from [1, L, 64] to [1, L, 64]"""


@dataclass
class Curve:
    name: str
    device: str
    lengths: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Forward and backward, median of the repetitions"""
    memory: list[int] = field(default_factory=list)
    """Bytes: on a CPU what is kept for the backward pass, on a GPU the peak beyond what was there before"""

    @property
    def time_exponent(self) -> float | None:
        return exponent(self.lengths, self.seconds)

    @property
    def memory_exponent(self) -> float | None:
        return exponent(self.lengths, self.memory)


def measure_scaling(lengths: Sequence[int], max_seconds: float = 60.0, device: str | None = None) -> list[Curve]:
    """A curve a layer. A layer leaves the longer lengths out when they would take more than its share of the time."""
    place, curves = device_named(device), []
    share = max_seconds / len(LAYERS)
    for name, make in LAYERS.items():
        torch.manual_seed(0)
        layer, curve = make().to(place), Curve(name, place.type)
        started = time.perf_counter()
        for length in lengths:
            seconds, memory = _measure(layer, length, place, share / 4)
            curve.lengths.append(length)
            curve.seconds.append(seconds)
            curve.memory.append(memory)
            # The next one is twice as long or so, and each of its passes up to four times as slow. What a first pass
            # takes beyond that, as loading kernels, does not come again.
            if 16 * seconds > share or time.perf_counter() - started > share:
                break
        curves.append(curve)
    return curves


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float | None:
    """p of value ∝ length^p by least squares over the upper half of the lengths, where the longest terms rule"""
    n = max(2, (len(lengths) + 1) // 2)
    if len(lengths) < 2 or min(values) <= 0:
        return None
    return float(np.polyfit(np.log(lengths[-n:]), np.log(values[-n:]), 1)[0])


def saved_bytes(layer: nn.Module, x: Tensor) -> int:
    """What the forward pass keeps for the backward pass: each storage once, parameters and input not counted."""
    known = {t.untyped_storage().data_ptr() for t in (*layer.parameters(), x)}
    found: dict[int, int] = {}
    held: list[Tensor] = []  # what is freed could give its address to another

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            found[storage.data_ptr()] = storage.nbytes()
        held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    return sum(found.values())


def _measure(layer: nn.Module, length: int, device: torch.device, limit: float) -> tuple[float, int]:
    """Seconds of a forward and backward pass, and bytes of memory"""
    x = torch.randn(1, length, D_MODEL, device=device, requires_grad=True)
    first = _once(layer, x)  # what happens only once, as choosing kernels, is not counted
    repeats = _REPEATS if _REPEATS * first < limit else 1
    seconds = median(_once(layer, x) for _ in range(repeats))
    if device.type != "cuda":
        return seconds, saved_bytes(layer, x)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    _once(layer, x)
    return seconds, torch.cuda.max_memory_allocated(device) - before


def _once(layer: nn.Module, x: Tensor) -> float:
    start = time.perf_counter()
    layer(x).sum().backward()
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    seconds = time.perf_counter() - start
    layer.zero_grad()
    x.grad = None
    return seconds


def save_scaling(curves: Sequence[Curve], folder: Path) -> tuple[str, list[Path]]:
    """scaling.json and, where matplotlib is installed, scaling.png and .svg → the table, the files"""
    folder.mkdir(parents=True, exist_ok=True)
    tree = [
        {**vars(curve), "time_exponent": curve.time_exponent, "memory_exponent": curve.memory_exponent}
        for curve in curves
    ]
    path = folder / "scaling.json"
    write_atomically(path, (json.dumps(tree, indent=1) + "\n").encode())
    return to_text(curves), [path, *draw_scaling(curves, folder)]


def to_text(curves: Sequence[Curve]) -> str:
    """The exponents, and what was measured at the greatest length of each"""
    head = f"{'layer':18}{'time ∝ L^':>10}{'memory ∝ L^':>13}{'greatest L':>12}{'ms':>11}{'MiB':>10}"
    rows = [
        f"{c.name:18}{_shown(c.time_exponent):>10}{_shown(c.memory_exponent):>13}{c.lengths[-1]:>12,}"
        f"{1000 * c.seconds[-1]:>11,.1f}{c.memory[-1] / 2**20:>10,.1f}"
        for c in curves
    ]
    return "\n".join([head, *rows])


def draw_scaling(curves: Sequence[Curve], folder: Path) -> list[Path]:
    if not can_draw():
        return []
    figure = new_figure(9.5, 4.0)
    times, memories = figure.subplots(1, 2)
    for curve, marker in zip(curves, _MARKERS, strict=False):
        milliseconds = [1000 * s for s in curve.seconds]
        _line(times, curve, milliseconds, curve.time_exponent, marker)
        _line(memories, curve, [b / 2**20 for b in curve.memory], curve.memory_exponent, marker)
    times.set(ylabel="milliseconds", title="Time, forward and backward")
    peak = curves[0].device == "cuda"
    memories.set(ylabel="MiB", title="Memory at the peak" if peak else "Memory kept for the backward pass")
    ticks = sorted({length for curve in curves for length in curve.lengths})
    for axes in (times, memories):
        axes.set(xscale="log", yscale="log", xlabel="length L")
        axes.set_xticks(ticks, [str(tick) for tick in ticks], rotation=45 if len(ticks) > 6 else 0)
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8)
    return [save_figure(figure, folder / f"scaling.{kind}") for kind in ("png", "svg")]


def _line(axes: Any, curve: Curve, values: Sequence[float], power: float | None, marker: str) -> None:
    label = f"{curve.name}  $L^{{{_shown(power)}}}$"
    axes.plot(curve.lengths, values, marker=marker, markersize=4.5, linewidth=1.4, label=label)


def _shown(power: float | None) -> str:
    return "–" if power is None else f"{power:.2f}"
