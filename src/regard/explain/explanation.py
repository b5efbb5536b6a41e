"""An explanation as data: steps with a sentence, a formula and tables of numbers."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.explain.formula import Formula

Cell = float | int | str


@dataclass(frozen=True)
class Table:
    """A matrix, a vector (one row) or a number (one cell); rows and columns may have names."""

    name: str
    cells: tuple[tuple[Cell, ...], ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def fits_one_line(self) -> bool:
        """Whether it has a single row, and no names of rows or columns"""
        return len(self.cells) == 1 and not self.rows and not self.columns


def table(name: str, columns: Sequence[str], cells: Sequence[Sequence[Cell]], rows: Sequence[str] = ()) -> Table:
    """Make a table whose columns may contain text or numbers."""
    return Table(name, tuple(tuple(row) for row in cells), tuple(rows), tuple(columns))


def matrix(name: str, values: Any, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Table:
    """Make a table of numbers from a tensor, array, list or number with at most two dimensions."""
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    cells = tuple(tuple(row) for row in np.atleast_2d(array).tolist())
    return Table(name, cells, tuple(rows), tuple(columns))


def max_difference(left: Any, right: Any, name: str = "largest difference") -> Table:
    """Return max |left − right|: zero, or close to it, if the two are computed in different ways but equal."""
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (left, right))
    return matrix(name, (a - b).abs().max() if a.numel() else 0.0)


def column_numbers(x: Any) -> tuple[str, ...]:
    """Return 1, 2, … as names for the columns of a matrix."""
    return tuple(str(i) for i in range(1, x.shape[1] + 1))


@dataclass(frozen=True)
class Step:
    text: str
    formula: Formula | None = None
    tables: tuple[Table, ...] = ()


def step(text: str, *parts: Formula | Table | None) -> Step:
    """Make a step from its sentence, at most one formula, and tables; None is left out."""
    formula = next((part for part in parts if isinstance(part, Formula)), None)
    return Step(text, formula, tuple(part for part in parts if isinstance(part, Table)))


@dataclass(frozen=True)
class GridPlot:
    """A plot of a matrix as coloured cells. If rows and columns have names, the values are written into the cells."""

    values: NDArray[Any]
    x: str
    y: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    limits: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class LinePlot:
    """A plot of curves, each a sequence of points (x, y), with the highest point of each marked."""

    curves: dict[str, tuple[tuple[float, float], ...]]
    x: str
    y: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """A computation worked out: its steps, the result in words, notes, and a plot for some topics."""

    title: str
    steps: tuple[Step, ...]
    result: str
    notes: tuple[str, ...] = ()
    plot: GridPlot | LinePlot | None = None

    def __repr__(self) -> str:
        return f"Explanation({self.title!r}, {len(self.steps)} steps)"

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the cells [rows, columns] of the first table of that name."""
        return next(np.asarray(t.cells) for s in self.steps for t in s.tables if t.name == name)

    def _repr_html_(self) -> str:
        """Show the steps with their tables, the result and the plot in a notebook."""
        from regard.explain.render_html import render_fragment

        return render_fragment(self)

    def to_json(self) -> str:
        """Return all numbers unrounded. Numbers that are not finite become strings, because JSON has none."""
        steps = [
            {
                "says": s.text,
                "formula": s.formula.text if s.formula else None,
                "tables": [
                    {"name": t.name, "rows": t.rows, "columns": t.columns, "cells": [_json_row(row) for row in t.cells]}
                    for t in s.tables
                ],
            }
            for s in self.steps
        ]
        tree = {"title": self.title, "steps": steps, "result": self.result, "notes": self.notes}
        return json.dumps(tree, ensure_ascii=False, allow_nan=False)


def _json_row(row: Sequence[Cell]) -> list[Cell]:
    return [str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
