"""Attention weights as a picture: source across, target down."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.look.figure import new_figure, save_figure
from regard.models.record import AttentionRecord


def draw_heatmap(record: AttentionRecord, path: Path) -> Path:
    """The cross-attention of one sentence, averaged over layers and heads; the format follows the path's suffix."""
    weights = record.cross.mean((0, 1))
    rows, columns = weights.shape
    figure = new_figure(1.6 + 0.55 * columns, 1.2 + 0.42 * rows)
    axes = figure.subplots()
    _cells(axes, weights)
    axes.set_xticks(
        range(columns),
        [readable(t) for t in record.source_tokens],
        rotation=45,
        ha="left",
        rotation_mode="anchor",
    )
    axes.set_yticks(range(rows), [readable(t) for t in record.target_tokens])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    return save_figure(figure, path)


def _cells(axes: Any, weights: NDArray[np.float32]) -> None:
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.05:
            color = "white" if weight > 0.55 else "0.25"
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=color)


def readable(token: str) -> str:
    """`▁house` → `house`, and `ing` → `-ing`, so that pieces of one word are seen as such."""
    if token.startswith("<") and token.endswith(">"):
        return token
    if token.startswith("▁"):
        return token[1:] or "▁"
    return f"-{token}"
