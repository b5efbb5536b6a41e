"""Drawing the plots of explanations."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.explain.explanation import GridPlot, LinePlot
from regard.explain.number_format import format_number
from regard.visualize.figure import new_figure, save_figure
from regard.visualize.heatmap import write_numbers


def draw_plot(plot: GridPlot | LinePlot, path: Path) -> Path:
    """Draw a plot. The suffix of the path selects the format."""
    return save_figure(plot_figure(plot), path)


def plot_figure(plot: GridPlot | LinePlot) -> Any:
    """Return a plot as a figure of matplotlib."""
    return _grid_figure(plot) if isinstance(plot, GridPlot) else _line_figure(plot)


def plot_svg(plot: GridPlot | LinePlot) -> str:
    """Return a plot as the text of an SVG file."""
    with TemporaryDirectory() as folder:
        return draw_plot(plot, Path(folder) / "plot.svg").read_text(encoding="utf-8")


def _grid_figure(plot: GridPlot) -> Any:
    n_rows, n_columns = plot.values.shape
    has_names = bool(plot.rows)
    figure = new_figure(*((2.8 + 0.6 * n_columns, 1.6 + 0.42 * n_rows) if has_names else (8.0, 5.4)))
    axes = figure.subplots()
    low, high = plot.limits
    image = axes.imshow(
        plot.values,
        cmap="Blues" if low >= 0 else "RdBu",
        vmin=low,
        vmax=high,
        aspect="auto",
        interpolation="nearest",
    )
    axes.set(xlabel=plot.x, ylabel=plot.y)
    if has_names:
        axes.set_xticks(range(n_columns), plot.columns, rotation=45, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(n_rows), plot.rows)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.tick_params(length=0)
        write_numbers(axes, plot.values, fontsize=8, darkest=high)
    figure.colorbar(image, ax=axes)
    return figure


def _line_figure(plot: LinePlot) -> Any:
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    for label, points in plot.curves.items():
        [line] = axes.plot(*zip(*points, strict=True), label=label)
        x, y = max(points, key=lambda point: point[1])
        axes.plot([x], [y], marker="o", color=line.get_color())
        axes.annotate(f"{format_number(y)} at {x:,.0f}", (x, y), xytext=(8, 4), textcoords="offset points", fontsize=9)
    axes.set(xlabel=plot.x, ylabel=plot.y, ylim=(0, None), xlim=(0, None))
    axes.margins(y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure
