"""Attention as lines between tokens: attended tokens on the left, attending tokens on the right."""

from pathlib import Path

import numpy as np

from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure
from regard.visualize.heatmap import check_token_count, mean_weights

THRESHOLD = 0.1
SIDE_TITLES = {
    "cross": ("source", "target"),
    "encoder": ("attended to", "attending"),
    "decoder": ("read so far", "next token"),
}
"""Titles of the left and of the right side for each kind of attention"""


def select_links(weights: Weights, threshold: float = THRESHOLD) -> list[tuple[int, int, float]]:
    """Return (row, column, weight) of all weights [rows, columns] above the threshold, smallest weight first."""
    links = [(int(i), int(j), float(weights[i, j])) for i, j in np.argwhere(weights > threshold)]
    return sorted(links, key=lambda link: link[2])


def draw_links(
    record: AttentionRecord, path: Path, kind: str = "cross", title: str = "", threshold: float = THRESHOLD
) -> Path:
    """Draw a line from each token to those that it attends to; the larger the weight, the darker and thicker."""
    weights = mean_weights(record, kind)
    attending, attended = map(token_labels, record.axis_tokens(kind))
    n = max(weights.shape)
    check_token_count(n)
    label_widths = [0.09 * max(map(len, labels)) for labels in (attended, attending)]
    figure = new_figure(2.4 + sum(label_widths), 0.9 + 0.27 * n)
    axes = figure.subplots()
    # Both sides get the height of the longer one, so that diagonal attention gives horizontal lines.
    left, right = (np.linspace(0, n - 1, len(labels)) if len(labels) > 1 else [0] for labels in (attended, attending))
    for row, column, weight in select_links(weights, threshold):
        line = axes.plot([0, 1], [left[column], right[row]], color="#08519c", alpha=weight, linewidth=0.4 + 4 * weight)
        line[0].set_gid(f"link-{row}-{column}")
    for x, heights, labels, alignment in ((-0.03, left, attended, "right"), (1.03, right, attending, "left")):
        for y, label in zip(heights, labels, strict=True):
            axes.text(x, y, label, ha=alignment, va="center", fontsize=10, parse_math=False)
    for x, name, alignment in zip((-0.03, 1.03), SIDE_TITLES[kind], ("right", "left"), strict=True):
        axes.text(x, -1, name, ha=alignment, va="center", fontsize=8, color="0.4")
    axes.set(xlim=(0, 1), ylim=(n - 0.5, -1.5))
    axes.axis("off")
    if title:
        figure.supxlabel(title, fontsize=8, color="0.4")
    return save_figure(figure, path)
