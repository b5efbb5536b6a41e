"""The pictures that some computations have."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from regard.explain.explanation import GridPlot, LinePlot
from regard.explain.number_format import number
from regard.visualize.figure import new_figure, save_figure


def draw(picture: GridPlot | LinePlot, path: Path) -> Path:
    """The format follows the path's suffix."""
    return save_figure(_figure(picture), path)


def svg(picture: GridPlot | LinePlot) -> str:
    with TemporaryDirectory() as folder:
        return draw(picture, Path(folder) / "picture.svg").read_text(encoding="utf-8")


def _figure(picture: GridPlot | LinePlot) -> Any:
    return _grid(picture) if isinstance(picture, GridPlot) else _lines(picture)


def _grid(picture: GridPlot) -> Any:
    rows, columns = picture.values.shape
    named = bool(picture.rows)
    figure = new_figure(*((2.8 + 0.6 * columns, 1.6 + 0.42 * rows) if named else (8.0, 5.4)))
    axes = figure.subplots()
    low, high = picture.limits
    image = axes.imshow(
        picture.values,
        cmap="Blues" if low >= 0 else "RdBu",
        vmin=low,
        vmax=high,
        aspect="auto",
        interpolation="nearest",
    )
    axes.set(xlabel=picture.x, ylabel=picture.y)
    if named:
        axes.set_xticks(range(columns), picture.columns, rotation=45, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(rows), picture.rows)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.tick_params(length=0)
        _write_weights(axes, picture)
    figure.colorbar(image, ax=axes)
    return figure


def _write_weights(axes: Any, picture: GridPlot) -> None:
    for (row, column), weight in np.ndenumerate(picture.values):
        if weight >= 0.05:
            color = "white" if weight > 0.55 else "0.25"
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=8, color=color)


def _lines(picture: LinePlot) -> Any:
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    for label, points in picture.curves.items():
        [line] = axes.plot(*zip(*points, strict=True), label=label)
        x, y = max(points, key=lambda point: point[1])
        axes.plot([x], [y], marker="o", color=line.get_color())
        axes.annotate(f"{number(y)} at {x:,.0f}", (x, y), xytext=(8, 4), textcoords="offset points", fontsize=9)
    axes.set(xlabel=picture.x, ylabel=picture.y, ylim=(0, None), xlim=(0, None))
    axes.margins(y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure
