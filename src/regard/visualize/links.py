"""Attention as lines between tokens: what is looked at on the left, what looks on the right."""

from pathlib import Path

import numpy as np

from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure
from regard.visualize.heatmap import check_token_count, mean_weights

THRESHOLD = 0.1
SIDES = {
    "cross": ("source", "target"),
    "encoder": ("looked at", "looking"),
    "decoder": ("read so far", "next token"),
}
"""What stands left and right, by kind"""


def select_links(weights: Weights, threshold: float = THRESHOLD) -> list[tuple[int, int, float]]:
    """(row, column, weight) of every weight [rows, columns] that is above the threshold, the faintest first"""
    found = [(int(i), int(j), float(weights[i, j])) for i, j in np.argwhere(weights > threshold)]
    return sorted(found, key=lambda link: link[2])


def draw_links(
    record: AttentionRecord, path: Path, kind: str = "cross", title: str = "", threshold: float = THRESHOLD
) -> Path:
    """A line from each token to what it looked at, the darker and thicker the greater the weight."""
    weights = mean_weights(record, kind)
    looking, looked_at = map(token_labels, record.axis_tokens(kind))
    n = max(weights.shape)
    check_token_count(n)
    widths = [0.09 * max(map(len, names)) for names in (looked_at, looking)]
    figure = new_figure(2.4 + sum(widths), 0.9 + 0.27 * n)
    axes = figure.subplots()
    # Both sides are as tall as the longer one, so that a diagonal is seen as level lines.
    left, right = (np.linspace(0, n - 1, num=len(names)) if len(names) > 1 else [0] for names in (looked_at, looking))
    for row, column, weight in select_links(weights, threshold):
        line = axes.plot([0, 1], [left[column], right[row]], color="#08519c", alpha=weight, linewidth=0.4 + 4 * weight)
        line[0].set_gid(f"link-{row}-{column}")
    for x, places, names, side in ((-0.03, left, looked_at, "right"), (1.03, right, looking, "left")):
        for y, name in zip(places, names, strict=True):
            axes.text(x, y, name, ha=side, va="center", fontsize=10, parse_math=False)
    for x, name, side in zip((-0.03, 1.03), SIDES[kind], ("right", "left"), strict=True):
        axes.text(x, -1, name, ha=side, va="center", fontsize=8, color="0.4")
    axes.set(xlim=(0, 1), ylim=(n - 0.5, -1.5))
    axes.axis("off")
    if title:
        figure.supxlabel(title, fontsize=8, color="0.4")
    return save_figure(figure, path)
