"""Learning curves of a training run, drawn from its metrics.jsonl."""

from pathlib import Path
from typing import Any

from regard.train.log import read_metrics
from regard.visualize.figure import has_matplotlib, new_figure, save_figure

_PERCENT_SCORES = {"bleu": "BLEU", "chrf": "chrF", "exact": "exact match", "accuracy": "accuracy", "f1": "F1"}


def draw_curves(run: Path) -> list[Path]:
    """Draw curves.png and curves.svg in the folder of a run; nothing if matplotlib is not installed."""
    if not has_matplotlib():
        return []
    rows = read_metrics(run / "metrics.jsonl")
    figure = new_figure(9, 3.6)
    losses, quality = figure.subplots(1, 2)
    _plot_metric(losses, rows, "loss", "training", color="0.6")
    _plot_metric(losses, rows, "valid_loss", "validation", color="tab:blue", marker="o")
    losses.set(xlabel="updates", ylabel="nats per target token", title="Loss", ylim=(0, None))
    losses.legend(frameon=False)
    _plot_quality(quality, rows)
    for axes in (losses, quality):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return [save_figure(figure, run / f"curves.{suffix}") for suffix in ("png", "svg")]


def _plot_quality(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Plot the validation scores of the task: scores in percent or, for a language model, bits per byte."""
    logged = {key for row in rows for key in row}
    scores = {key: label for key, label in _PERCENT_SCORES.items() if key in logged}
    if not scores:
        _plot_metric(axes, rows, "bits_per_byte", "bits per byte", color="tab:green", marker="o")
        axes.set(xlabel="updates", title="Validation", ylim=(0, None))
        axes.legend(frameon=False)
        return
    for (key, label), color in zip(scores.items(), ("tab:green", "tab:orange", "tab:purple"), strict=False):
        _plot_metric(axes, rows, key, label, color=color, marker="o")
    axes.set(xlabel="updates", title="Validation", ylim=(0, 102))
    axes.legend(frameon=False, loc="lower right")


def _plot_metric(axes: Any, rows: list[dict[str, Any]], key: str, label: str, **style: Any) -> None:
    points = [(row["step"], row[key]) for row in rows if key in row]
    axes.plot([x for x, _ in points], [y for _, y in points], label=label, markersize=4, **style)
