"""A small heat map of every head: one row per layer, one column per head, the same colour scale for all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure
from regard.visualize.heatmap import check_token_count, head_weights

AxisTokens = tuple[tuple[str, ...], tuple[str, ...]]
"""Tokens of the rows and of the columns"""

_MAX_LABELLED = 24  # tokens per side up to which there is room for their labels


def draw_grid(record: AttentionRecord, path: Path, kind: str = "cross", title: str = "") -> Path:
    """Draw every head of one kind of attention."""
    weights = head_weights(record, kind)
    names = {(layer, head): f"layer {layer}, head {head}" for layer, head in np.ndindex(*weights.shape[:2])}
    return draw_panels(weights, names, record.axis_tokens(kind), path, title)


def draw_panels(weights: Weights, names: Mapping[Any, str], tokens: AxisTokens, path: Path, title: str = "") -> Path:
    """Draw small heat maps of weights [down, across, from, to] with the title names[down, across] each.

    Tokens are written at the left and bottom edge if there is room.
    """
    n_down, n_across, n_rows, n_columns = weights.shape
    check_token_count(max(n_rows, n_columns))
    labelled = max(n_rows, n_columns) <= _MAX_LABELLED
    width, height = (max(1.3, 0.15 * n) if labelled else 2.2 for n in (n_columns, n_rows))
    figure = new_figure(n_across * width + 2.0, n_down * (height + 0.15) + 1.4)
    panels = figure.subplots(n_down, n_across, squeeze=False, sharex=True, sharey=True)
    for position, axes in np.ndenumerate(panels):
        image = axes.imshow(weights[position], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_gid(names[position].replace(", ", "-").replace(" ", "-"))
        axes.set_title(names[position], fontsize=8, color="0.35")
        axes.tick_params(length=0, labelbottom=False, labelleft=False)
    if labelled:
        _label_edges(panels, *map(token_labels, tokens))
    else:
        panels[0, 0].set(xticks=[], yticks=[])
    colorbar = figure.colorbar(image, ax=panels, shrink=min(1.0, 3 / (n_down * height)), aspect=30, pad=0.01)
    colorbar.outline.set_visible(False)
    if title:
        figure.supxlabel(title, fontsize=8, color="0.4")
    return save_figure(figure, path)


def _label_edges(panels: Any, row_labels: list[str], column_labels: list[str]) -> None:
    for axes in panels[-1]:
        axes.set_xticks(range(len(column_labels)), column_labels, parse_math=False, rotation=90, fontsize=7)
        axes.tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(row_labels)), row_labels, parse_math=False, fontsize=7)
        axes.tick_params(labelleft=True)
