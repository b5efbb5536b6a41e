"""A worked computation as a value: steps with words, a formula and the numbers."""

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
    """A matrix, a vector (one row) or a number (one cell), with names for its rows and columns if they have any."""

    name: str
    cells: tuple[tuple[Cell, ...], ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether it fits a line: one row without names"""
        return len(self.cells) == 1 and not self.rows and not self.columns


def matrix(name: str, values: Any, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Table:
    """Numbers of any shape up to two dimensions: a tensor, an array, a list, a number"""
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    cells = tuple(tuple(row) for row in np.atleast_2d(array).tolist())
    return Table(name, cells, tuple(rows), tuple(columns))


def listing(name: str, columns: Sequence[str], cells: Sequence[Sequence[Cell]], rows: Sequence[str] = ()) -> Table:
    """Words and numbers side by side"""
    return Table(name, tuple(tuple(row) for row in cells), tuple(rows), tuple(columns))


def difference(left: Any, right: Any, name: str = "largest difference") -> Table:
    """max |left − right|, which is zero or a matter of rounding where the two are one thing"""
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (left, right))
    return matrix(name, (a - b).abs().max() if a.numel() else 0.0)


def numbered(x: Any) -> tuple[str, ...]:
    """Names for the columns of a matrix that have none of their own: 1, 2, …"""
    return tuple(str(i) for i in range(1, x.shape[1] + 1))


@dataclass(frozen=True)
class Step:
    says: str
    formula: Formula | None = None
    tables: tuple[Table, ...] = ()


def step(says: str, formula: Formula | None = None, *tables: Table) -> Step:
    return Step(says, formula, tables)


@dataclass(frozen=True)
class GridPlot:
    """A picture of a matrix. With names for its rows and columns the weights stand in the cells."""

    values: NDArray[Any]
    x: str
    y: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    limits: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class LinePlot:
    """A picture of curves, each of points (x, y), its highest point marked."""

    curves: dict[str, tuple[tuple[float, float], ...]]
    x: str
    y: str


@dataclass(frozen=True)
class Explanation:
    title: str
    steps: tuple[Step, ...]
    result: str
    notes: tuple[str, ...] = ()
    picture: GridPlot | LinePlot | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The numbers of the first table of that name, [rows, columns]"""
        return next(np.asarray(t.cells) for s in self.steps for t in s.tables if t.name == name)

    def to_json(self) -> str:
        """Every number as it was computed; what is not finite is a string, since JSON has no word for it."""
        steps = [
            {
                "says": s.says,
                "formula": s.formula.text if s.formula else None,
                "tables": [
                    {"name": t.name, "rows": t.rows, "columns": t.columns, "cells": [_finite(row) for row in t.cells]}
                    for t in s.tables
                ],
            }
            for s in self.steps
        ]
        tree = {"title": self.title, "steps": steps, "result": self.result, "notes": self.notes}
        return json.dumps(tree, ensure_ascii=False, allow_nan=False)


def _finite(row: Sequence[Cell]) -> list[Cell]:
    return [str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
