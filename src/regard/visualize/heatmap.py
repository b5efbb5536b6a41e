"""Attention weights as a heat map: rows attend, columns are attended to."""

from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import UserError
from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure

MAX_TOKENS = 128  # per side; more cannot be read in a figure
_MAX_WITH_NUMBERS = 24  # tokens per side up to which there is room for a number in each cell
_MIN_NUMBER = 0.05  # weights below this are not written into their cells


def head_weights(record: AttentionRecord, kind: str) -> Weights:
    """Return the weights [layers, heads, from, to] of one kind of attention; refuse a kind that the model lacks."""
    weights = record.weights(kind)
    if not weights.size:
        raise UserError(f"this model has no {kind} attention")
    return weights


def mean_weights(record: AttentionRecord, kind: str) -> Weights:
    """Return the weights [from, to] of one kind of attention, averaged over the layers and heads of the record."""
    mean: Weights = head_weights(record, kind).mean((0, 1))
    return mean


def check_token_count(n_tokens: int) -> None:
    """Refuse more tokens than can be read in a figure or in the terminal."""
    if n_tokens > MAX_TOKENS:
        raise UserError(
            f"{n_tokens:,} tokens are too many for a figure or the terminal (at most {MAX_TOKENS});"
            " try --words, or --out with .html, .json or .safetensors"
        )


def draw_heatmap(record: AttentionRecord, path: Path, kind: str = "cross", title: str = "") -> Path:
    """Draw the mean attention of a record. The suffix of the path selects the format."""
    weights = mean_weights(record, kind)
    row_labels, column_labels = map(token_labels, record.axis_tokens(kind))
    n_rows, n_columns = weights.shape
    n = max(n_rows, n_columns)
    check_token_count(n)
    with_numbers = n <= _MAX_WITH_NUMBERS
    cell_width, cell_height = (0.55, 0.42) if with_numbers else (0.22, 0.22) if n <= MAX_TOKENS / 2 else (0.17, 0.17)
    row_length, column_length = (max(map(len, labels)) for labels in (row_labels, column_labels))
    figure = new_figure(
        0.6 + 0.09 * row_length + cell_width * n_columns, 0.6 + 0.07 * column_length + cell_height * n_rows
    )
    axes = figure.subplots()
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    if with_numbers:
        write_numbers(axes, weights, fontsize=7)
    fontsize = min(10.0, 0.7 * 72 * cell_height)
    angle = {"rotation": 45 if cell_height > 0.2 else 90, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(n_columns), column_labels, parse_math=False, fontsize=fontsize, **angle)
    axes.set_yticks(range(n_rows), row_labels, parse_math=False, fontsize=fontsize)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    if title:
        axes.set_xlabel(title, fontsize=8, color="0.4")
    return save_figure(figure, path)


def write_numbers(axes: Any, weights: Weights, fontsize: float, darkest: float = 1.0) -> None:
    """Write each weight into its cell, white on dark cells; the cells of ±`darkest` are the darkest."""
    for (row, column), weight in np.ndenumerate(weights):
        if abs(weight) >= _MIN_NUMBER * darkest:
            color = "white" if abs(weight) > 0.55 * darkest else "0.25"
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=fontsize, color=color)
