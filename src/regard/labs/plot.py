"""Plots of labs: the panels of a result side by side."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.labs.result import ArrowPanel, BarPanel, LabResult, LinePanel, MatrixPanel, Panel
from regard.visualize.figure import has_matplotlib, new_figure, save_figure

_HEIGHT = 3.6
_MARKERS = "osD^v"
_MAX_TICKS = 12
_WIDTHS: dict[type[Panel], float] = {LinePanel: 4.2, BarPanel: 5.0, MatrixPanel: 3.4, ArrowPanel: 4.8}


def draw_lab(result: LabResult, path: Path) -> list[Path]:
    """Draw `path`.png and `path`.svg and return their paths; without matplotlib, return no paths."""
    if not has_matplotlib():
        return []
    figure = lab_figure(result)
    return [save_figure(figure, path.with_name(f"{path.name}.{kind}")) for kind in ("png", "svg")]


def lab_figure(result: LabResult) -> Any:
    """Return the panels of a result as a figure of matplotlib."""
    widths = [_WIDTHS[type(panel)] for panel in result.panels]
    figure = new_figure(max(6.0, sum(widths)), _HEIGHT)
    figure.get_layout_engine().set(w_pad=0.12)
    subplots = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
    for axes, panel in zip(subplots, result.panels, strict=True):
        axes.set_title(panel.title, fontsize=10)
        _DRAW[type(panel)](axes, panel)
    return figure


def _draw_lines(axes: Any, panel: LinePanel) -> None:
    for i, (name, values) in enumerate(panel.lines.items()):
        scaled = [100 * value for value in values] if panel.percent else list(values)
        # Each line is thinner than the one before, so that lines with equal values are all visible.
        style = {"marker": _MARKERS[i % len(_MARKERS)], "markersize": max(4, 8 - 2 * i), "linewidth": max(1.2, 2.6 - i)}
        axes.plot(panel.xs, scaled, label=name, **style)
    for axis in panel.log:
        axes.set(**{f"{axis}scale": "log"})
    ticks = panel.xs[:: 1 + len(panel.xs) // _MAX_TICKS]
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    if "x" in panel.log:
        axes.set_xticks([], minor=True)
    if panel.percent:
        axes.set_ylim(-3, 103)
    elif "y" not in panel.log:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.grid(alpha=0.25)
    _finish_axes(axes, named=any(panel.lines))


def _draw_bars(axes: Any, panel: BarPanel) -> None:
    n = len(panel.bars)
    for i, (name, shares) in enumerate(panel.bars.items()):
        xs = [group + (i - (n - 1) / 2) * 0.8 / n for group in range(len(panel.groups))]
        bars = axes.bar(xs, [100 * share for share in shares], width=0.74 / n, label=name)
        axes.bar_label(bars, fmt="%.0f", fontsize=8, padding=2)
    axes.set_xticks(range(len(panel.groups)), panel.groups)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, ylim=(0, 112), yticks=range(0, 101, 25))
    axes.tick_params(axis="x", length=0)
    axes.grid(alpha=0.25, axis="y")
    axes.set_axisbelow(True)
    _finish_axes(axes, named=any(panel.bars))


def _draw_matrix(axes: Any, panel: MatrixPanel) -> None:
    largest = max(abs(value) for row in panel.values for value in row)
    image = axes.imshow(panel.values, cmap="RdBu", vmin=-largest, vmax=largest)
    axes.set_xticks(range(len(panel.columns)), panel.columns)
    axes.set_yticks(range(len(panel.rows)), panel.rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set(xlabel="key", ylabel="query")
    axes.figure.colorbar(image, ax=axes, shrink=0.75)


def _draw_arrows(axes: Any, panel: ArrowPanel) -> None:
    for word, (x, y) in panel.words.items():
        axes.plot(x, y, "o", color="0.35", markersize=5, clip_on=False)
        axes.annotate(word, (x, y), xytext=(6, 6), textcoords="offset points", fontsize=9)
    for i, (name, (start, end)) in enumerate(panel.arrows.items()):
        style = {"arrowstyle": "-|>", "color": f"C{i}", "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", end, start, arrowprops=style)
        axes.plot([], [], color=f"C{i}", linewidth=1.8, label=name)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.margins(0.18)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    _finish_axes(axes, named=True)


def _finish_axes(axes: Any, named: bool) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    if named:
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


_DRAW: dict[type[Panel], Callable[[Any, Any], None]] = {
    LinePanel: _draw_lines,
    BarPanel: _draw_bars,
    MatrixPanel: _draw_matrix,
    ArrowPanel: _draw_arrows,
}
