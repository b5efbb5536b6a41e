"""Numbers in tables: four significant digits, and the same number of decimals for numbers shown together."""

import math
from collections.abc import Sequence

from regard.explain.explanation import Cell, Table

MAX_ROWS = 12  # of a table that is shown; the JSON has all rows
_DIGITS = 4  # significant digits
_MAX_DECIMALS = 7  # smaller numbers are written with an exponent


def format_cells(table: Table) -> list[list[str]]:
    """Format the first rows of a table: decimals are the same in a whole matrix, or per column in a table with text."""
    if not any(isinstance(cell, str) for row in table.cells for cell in row):
        floats = _finite_floats([cell for row in table.cells for cell in row])
        return [[_format_cell(cell, floats) for cell in row] for row in table.cells[:MAX_ROWS]]
    columns = [
        [_format_cell(cell, _finite_floats(column)) for cell in column] for column in zip(*table.cells, strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)][:MAX_ROWS]


def text_columns(table: Table) -> list[bool]:
    """Tell which columns contain text; they are aligned to the left, numbers to the right."""
    return [any(isinstance(cell, str) for cell in column) for column in zip(*table.cells, strict=True)]


def omission_note(table: Table, max_columns: int) -> str:
    """Return a note on the rows and columns that are not shown; empty if all are."""
    sizes = (("rows", len(table.cells), MAX_ROWS), ("columns", len(table.cells[0]), max_columns))
    omitted = [f"{n - limit} more {name}" for name, n, limit in sizes if n > limit]
    return f"({' and '.join(omitted)} not shown; --json has all)" if omitted else ""


def format_number(value: float, *others: float) -> str:
    """Format a number with as many decimals as it and the others, shown next to it, need.

    The largest of them gets four significant digits; zeros at the end of all of them are dropped.
    """
    values = [abs(x) for x in (value, *others)]
    if not max(values):
        return "0"
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(max(values))))
    if decimals > _MAX_DECIMALS:
        return _with_minus_sign(f"{value:.1e}") if value else "0"
    while decimals and all(round(x, decimals) == round(x, decimals - 1) for x in values):
        decimals -= 1
    return _with_minus_sign(f"{value:.{decimals}f}")


def _format_cell(cell: Cell, floats: Sequence[float]) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return _with_minus_sign(f"{cell:,}" if abs(cell) >= 10_000 else str(cell))
    if not math.isfinite(cell):
        return "−∞" if cell < 0 else "∞"
    return format_number(cell, *floats)


def _finite_floats(cells: Sequence[Cell]) -> list[float]:
    return [cell for cell in cells if isinstance(cell, float) and math.isfinite(cell)]


def _with_minus_sign(text: str) -> str:
    """Replace a hyphen by a minus sign; drop it from a negative zero."""
    if not text.startswith("-"):
        return text
    return text[1:] if not text.strip("-0.") else f"−{text[1:]}"
