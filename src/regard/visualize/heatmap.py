"""Attention weights as a picture: what looks down the side, what is looked at across the top."""

from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import UserError
from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure

MOST = 128  # tokens a side that can still be read in a picture
_FEW = 24  # so many leave room for figures in the cells


def mean_weights(record: AttentionRecord, kind: str) -> Weights:
    """[from, to]: one kind of attention, averaged over the record's layers and heads"""
    averaged: Weights = head_weights(record, kind).mean((0, 1))
    return averaged


def head_weights(record: AttentionRecord, kind: str) -> Weights:
    """[layers, heads, from, to] of a kind that the model has"""
    weights = record.weights(kind)
    if not weights.size:
        raise UserError(f"this model has no {kind} attention to look at")
    return weights


def check_token_count(n_tokens: int) -> None:
    """Refuse what would be a picture of specks."""
    if n_tokens > MOST:
        raise UserError(
            f"{n_tokens:,} tokens are too many for a picture or a terminal, which hold {MOST};"
            " try --words, or --out with .html, .json or .safetensors"
        )


def draw_heatmap(record: AttentionRecord, path: Path, kind: str = "cross", title: str = "") -> Path:
    """Where the tokens of one sentence looked; the format follows the path's suffix."""
    weights = mean_weights(record, kind)
    row_labels, column_labels = map(token_labels, record.axis_tokens(kind))
    rows, columns = weights.shape
    check_token_count(max(rows, columns))
    few = max(rows, columns) <= _FEW
    wide, high = (0.55, 0.42) if few else (0.22, 0.22) if max(rows, columns) <= MOST / 2 else (0.17, 0.17)
    longest = [max(map(len, names)) for names in (row_labels, column_labels)]
    figure = new_figure(0.6 + 0.09 * longest[0] + wide * columns, 0.6 + 0.07 * longest[1] + high * rows)
    axes = figure.subplots()
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    if few:
        _write_figures(axes, weights)
    size = min(10.0, 0.7 * 72 * high)
    angle = {"rotation": 45 if high > 0.2 else 90, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(columns), column_labels, parse_math=False, fontsize=size, **angle)
    axes.set_yticks(range(rows), row_labels, parse_math=False, fontsize=size)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    if title:
        axes.set_xlabel(title, fontsize=8, color="0.4")
    return save_figure(figure, path)


def _write_figures(axes: Any, weights: Weights) -> None:
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.05:
            color = "white" if weight > 0.55 else "0.25"
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=color)
