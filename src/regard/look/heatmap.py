"""Attention weights as a picture: what looks down the side, what is looked at across the top."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.errors import UserError
from regard.look.figure import new_figure, save_figure
from regard.models.record import AttentionRecord


def map_of(record: AttentionRecord, kind: str) -> NDArray[np.float32]:
    """[from, to]: one kind of attention, averaged over the record's layers and heads"""
    weights = record.weights(kind)
    if not weights.size:
        raise UserError(f"this model has no {kind} attention to look at")
    averaged: NDArray[np.float32] = weights.mean((0, 1))
    return averaged


def draw_heatmap(record: AttentionRecord, path: Path, kind: str = "cross") -> Path:
    """Where the tokens of one sentence looked; the format follows the path's suffix."""
    weights, (row_tokens, column_tokens) = map_of(record, kind), record.tokens(kind)
    rows, columns = weights.shape
    figure = new_figure(1.6 + 0.55 * columns, 1.2 + 0.42 * rows)
    axes = figure.subplots()
    _cells(axes, weights)
    axes.set_xticks(
        range(columns),
        labels(column_tokens),
        rotation=45,
        ha="left",
        rotation_mode="anchor",
    )
    axes.set_yticks(range(rows), labels(row_tokens))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    return save_figure(figure, path)


def print_heatmap(record: AttentionRecord, kind: str = "cross") -> None:
    """The same in the terminal: the darker the blue behind a figure (in per cent), the greater the weight."""
    weights, (row_tokens, column_tokens) = map_of(record, kind), record.tokens(kind)
    table = Table(box=None, padding=(0, 1))
    for name in ("", *labels(column_tokens)):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for label, row in zip(labels(row_tokens), weights, strict=True):
        table.add_row(Text(label), *(_shaded(float(weight)) for weight in row))
    Console(soft_wrap=True).print(table)


def _shaded(weight: float) -> Text:
    light = round(255 * (1 - weight))
    return Text(f"{100 * weight:.0f}", style=f"{'black' if weight < 0.5 else 'white'} on rgb({light},{light},255)")


def _cells(axes: Any, weights: NDArray[np.float32]) -> None:
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.05:
            color = "white" if weight > 0.55 else "0.25"
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=color)


def labels(tokens: Sequence[str]) -> list[str]:
    """Tokens for people: pieces of words are seen as such; whole words and single characters stay as they are."""
    marked = any(token.startswith("▁") for token in tokens)
    return [readable(token) if marked else token for token in tokens]


def readable(token: str) -> str:
    """`▁house` → `house`, and `ing` → `-ing`, so that pieces of one word are seen as such."""
    if token.startswith("<") and token.endswith(">"):
        return token
    if token.startswith("▁"):
        return token[1:] or "▁"
    return f"-{token}"
