"""All heads at once: a row a layer, a column a head, one scale for all of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure
from regard.visualize.heatmap import check_token_count, head_weights

Tokens = tuple[tuple[str, ...], tuple[str, ...]]

_FEW = 24  # tokens a side that can be named beside a small map


def draw_grid(record: AttentionRecord, path: Path, kind: str = "cross", title: str = "") -> Path:
    """A small map of every head"""
    weights = head_weights(record, kind)
    names = {(layer, head): f"layer {layer}, head {head}" for layer, head in np.ndindex(*weights.shape[:2])}
    return draw_panels(weights, names, record.axis_tokens(kind), path, title)


def draw_panels(weights: Weights, names: Mapping[Any, str], tokens: Tokens, path: Path, title: str = "") -> Path:
    """Small maps [down, across, from, to] side by side; the tokens are named at the edges where there is room."""
    n_down, n_across, rows, columns = weights.shape
    check_token_count(max(rows, columns))
    row_labels, column_labels = map(token_labels, tokens)
    named = max(rows, columns) <= _FEW
    wide, high = (max(1.3, 0.15 * n) if named else 2.2 for n in (columns, rows))
    figure = new_figure(n_across * wide + 2.0, n_down * (high + 0.15) + 1.4)
    panels = figure.subplots(n_down, n_across, squeeze=False, sharex=True, sharey=True)
    for place, axes in np.ndenumerate(panels):
        image = axes.imshow(weights[place], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_gid(names[place].replace(", ", "-").replace(" ", "-"))
        axes.set_title(names[place], fontsize=8, color="0.35")
        axes.tick_params(length=0, labelbottom=False, labelleft=False)
    if named:
        for axes in panels[-1]:
            axes.set_xticks(range(columns), column_labels, parse_math=False, rotation=90, fontsize=7)
            axes.tick_params(labelbottom=True)
        for axes in panels[:, 0]:
            axes.set_yticks(range(rows), row_labels, parse_math=False, fontsize=7)
            axes.tick_params(labelleft=True)
    else:
        panels[0, 0].set(xticks=[], yticks=[])
    scale = figure.colorbar(image, ax=panels, shrink=min(1.0, 3 / (n_down * high)), aspect=30, pad=0.01)
    scale.outline.set_visible(False)
    if title:
        figure.supxlabel(title, fontsize=8, color="0.4")
    return save_figure(figure, path)
