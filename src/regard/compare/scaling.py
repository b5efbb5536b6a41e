"""Time and memory of one layer by sequence length L, and the exponents p of their growth, ∝ L^p."""

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
from regard.memory import release_memory
from regard.nn.attention import Heads, SelfAttention
from regard.nn.mixers import LinearAttention, StateSpace
from regard.nn.recurrent import Recurrent
from regard.pipelines.base import device_named
from regard.visualize.figure import has_matplotlib, new_figure, save_figure

D_MODEL, N_HEADS = 64, 4
_REPEATS = 5
_HEADS = Heads(D_MODEL, N_HEADS)
_MARKERS = "osD^v"


class PlainAttention(nn.Module):
    """Causal attention computed by its equation, with all weights in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = SelfAttention(_HEADS, causal=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.attention(x, need_trace=True)[0]
        return y


class FirstOutput(nn.Module):
    """The first of the two values that a layer returns."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)[0]
        return y


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GRU": lambda: FirstOutput(Recurrent("gru", D_MODEL, D_MODEL, 1, 0.0)),
    "attention, plain": PlainAttention,
    "attention, fused": lambda: FirstOutput(SelfAttention(_HEADS, causal=True)),
    "linear attention": lambda: FirstOutput(LinearAttention(_HEADS, causal=True, feature="elu")),
    "state space": lambda: FirstOutput(StateSpace(D_MODEL, d_state=16)),
}
"""Causal layers with d_model 64 and 4 heads, from [1, L, 64] to [1, L, 64]"""


@dataclass
class ScalingCurve:
    """Measurements of one layer, one per sequence length."""

    name: str
    device: str
    lengths: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of a forward and a backward pass: the median of several"""
    memory: list[int] = field(default_factory=list)
    """Bytes: on a CPU what is saved for the backward pass, on a GPU the peak above the memory in use before"""

    @property
    def time_exponent(self) -> float | None:
        return exponent(self.lengths, self.seconds)

    @property
    def memory_exponent(self) -> float | None:
        return exponent(self.lengths, self.memory)


def measure_scaling(lengths: Sequence[int], max_seconds: float = 60.0, device: str | None = None) -> list[ScalingCurve]:
    """Measure every layer. Lengths for which a layer would need more than its share of the time, or which it cannot
    process, are left out.
    """
    torch_device, curves = device_named(device), []
    share = max_seconds / len(LAYERS)
    for name, make in LAYERS.items():
        torch.manual_seed(0)
        layer, curve = make().to(torch_device), ScalingCurve(name, torch_device.type)
        started = time.perf_counter()
        for length in lengths:
            try:
                seconds, memory = _measure(layer, length, torch_device, share / 4)
            except (RuntimeError, MemoryError):  # out of memory, or too long for cuDNN
                break
            curve.lengths.append(length)
            curve.seconds.append(seconds)
            curve.memory.append(memory)
            # The next length is about twice this one: a pass takes up to four times as long, and there are about four
            # passes (a warm-up, at least one that counts, one for the memory). Kernels need not be loaded again.
            if 16 * seconds > share or time.perf_counter() - started > share:
                break
        curves.append(curve)
        del layer
        release_memory()
    return curves


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float | None:
    """Fit value ∝ length^p by least squares and return p.

    Only the upper half of the lengths is used, where the fastest growing term dominates.
    """
    n = max(2, (len(lengths) + 1) // 2)
    if len(lengths) < 2 or min(values) <= 0:
        return None
    return float(np.polyfit(np.log(lengths[-n:]), np.log(values[-n:]), 1)[0])


def saved_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the bytes that the forward pass saves for the backward pass, without parameters and input."""
    known = {t.untyped_storage().data_ptr() for t in (*layer.parameters(), x)}
    sizes: dict[int, int] = {}  # by address, so that each storage counts once
    alive: list[Tensor] = []  # if a tensor were freed, another one could get its address

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    return sum(sizes.values())


def _measure(layer: nn.Module, length: int, device: torch.device, limit: float) -> tuple[float, int]:
    """Return the seconds of a forward and backward pass, and the bytes of memory."""
    x = torch.randn(1, length, D_MODEL, device=device, requires_grad=True)
    first = _time_pass(layer, x)  # not counted: it also loads and chooses kernels
    repeats = _REPEATS if _REPEATS * first < limit else 1
    seconds = median(_time_pass(layer, x) for _ in range(repeats))
    if device.type != "cuda":
        return seconds, saved_bytes(layer, x)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    _time_pass(layer, x)
    return seconds, torch.cuda.max_memory_allocated(device) - before


def _time_pass(layer: nn.Module, x: Tensor) -> float:
    start = time.perf_counter()
    layer(x).sum().backward()
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    seconds = time.perf_counter() - start
    layer.zero_grad()
    x.grad = None
    return seconds


def save_scaling(curves: Sequence[ScalingCurve], folder: Path) -> tuple[str, list[Path]]:
    """Write scaling.json and, with matplotlib, scaling.png and .svg. Return the table as text and the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = [
        {**vars(curve), "time_exponent": curve.time_exponent, "memory_exponent": curve.memory_exponent}
        for curve in curves
    ]
    path = folder / "scaling.json"
    write_atomically(path, (json.dumps(tree, indent=1) + "\n").encode())
    return to_text(curves), [path, *draw_scaling(curves, folder)]


def to_text(curves: Sequence[ScalingCurve]) -> str:
    """Return a table of the exponents, and of time and memory at the greatest length of each layer."""
    head = f"{'layer':18}{'time ∝ L^':>10}{'memory ∝ L^':>13}{'greatest L':>12}{'ms':>11}{'MiB':>10}"
    rows = [
        f"{c.name:18}{_format_exponent(c.time_exponent):>10}{_format_exponent(c.memory_exponent):>13}{c.lengths[-1]:>12,}"
        f"{1000 * c.seconds[-1]:>11,.1f}{c.memory[-1] / 2**20:>10,.1f}"
        for c in curves
    ]
    return "\n".join([head, *rows])


def draw_scaling(curves: Sequence[ScalingCurve], folder: Path) -> list[Path]:
    """Draw time and memory by length, with logarithmic axes."""
    if not has_matplotlib():
        return []
    figure = new_figure(9.5, 4.0)
    times, memories = figure.subplots(1, 2)
    for curve, marker in zip(curves, _MARKERS, strict=False):
        milliseconds = [1000 * s for s in curve.seconds]
        _draw_line(times, curve, milliseconds, curve.time_exponent, marker)
        _draw_line(memories, curve, [b / 2**20 for b in curve.memory], curve.memory_exponent, marker)
    times.set(ylabel="milliseconds", title="Time, forward and backward")
    peak = curves[0].device == "cuda"
    memories.set(ylabel="MiB", title="Peak memory" if peak else "Memory saved for the backward pass")
    ticks = sorted({length for curve in curves for length in curve.lengths})
    for axes in (times, memories):
        axes.set(xscale="log", yscale="log", xlabel="length L")
        axes.set_xticks(ticks, [str(tick) for tick in ticks], rotation=45 if len(ticks) > 6 else 0)
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8)
    return [save_figure(figure, folder / f"scaling.{kind}") for kind in ("png", "svg")]


def _draw_line(axes: Any, curve: ScalingCurve, values: Sequence[float], power: float | None, marker: str) -> None:
    label = f"{curve.name}  $L^{{{_format_exponent(power)}}}$"
    axes.plot(curve.lengths, values, marker=marker, markersize=4.5, linewidth=1.4, label=label)


def _format_exponent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
