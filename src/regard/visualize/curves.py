"""Learning curves of a run, from its metrics.jsonl."""

from pathlib import Path
from typing import Any

from regard.train.log import read_metrics
from regard.visualize.figure import has_matplotlib, new_figure, save_figure


def draw_curves(run: Path) -> list[Path]:
    """curves.png and curves.svg in the run's folder; nothing where matplotlib is not installed."""
    if not has_matplotlib():
        return []
    rows = read_metrics(run / "metrics.jsonl")
    figure = new_figure(9, 3.6)
    losses, quality = figure.subplots(1, 2)
    _line(losses, rows, "loss", "training", color="0.6")
    _line(losses, rows, "valid_loss", "validation", color="tab:blue", marker="o")
    losses.set(xlabel="updates", ylabel="nats a target token", title="Loss", ylim=(0, None))
    losses.legend(frameon=False)
    _quality(quality, rows)
    for axes in (losses, quality):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return [save_figure(figure, run / f"curves.{kind}") for kind in ("png", "svg")]


def _quality(axes: Any, rows: list[dict[str, Any]]) -> None:
    """The scores that the task has: per cent of something, or what a language model has instead."""
    present = {key for row in rows for key in row}
    percent = {"bleu": "BLEU", "chrf": "chrF", "exact": "exactly right", "accuracy": "accuracy", "f1": "F1"}
    shown = {key: label for key, label in percent.items() if key in present}
    if not shown:
        _line(axes, rows, "bits_per_byte", "bits per byte", color="tab:green", marker="o")
        axes.set(xlabel="updates", title="Validation", ylim=(0, None))
        axes.legend(frameon=False)
        return
    for key, color in zip(shown, ("tab:green", "tab:orange", "tab:purple"), strict=False):
        _line(axes, rows, key, shown[key], color=color, marker="o")
    axes.set(xlabel="updates", title="Validation", ylim=(0, 102))
    axes.legend(frameon=False, loc="lower right")


def _line(axes: Any, rows: list[dict[str, Any]], key: str, label: str, **style: Any) -> None:
    points = [(row["step"], row[key]) for row in rows if key in row]
    axes.plot([x for x, _ in points], [y for _, y in points], label=label, markersize=4, **style)
