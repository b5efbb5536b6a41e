"""Numbers for people: those that stand together have one number of places."""

import math
from collections.abc import Sequence

from regard.explain.explanation import Cell, Table

MOST_ROWS = 12  # more of a table are for the JSON
_DIGITS = 4  # that count
_PLACES = 7  # behind the point; smaller numbers have an exponent


def shown(table: Table) -> list[list[str]]:
    """Cells as strings, of the first rows: the numbers of a matrix alike, those of a listing column by column"""
    if not any(isinstance(cell, str) for row in table.cells for cell in row):
        floats = _floats([cell for row in table.cells for cell in row])
        return [[_shown(cell, floats) for cell in row] for row in table.cells[:MOST_ROWS]]
    columns = [[_shown(cell, _floats(column)) for cell in column] for column in zip(*table.cells, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)][:MOST_ROWS]


def words(table: Table) -> list[bool]:
    """Whether a column holds words, which stand to the left; numbers stand to the right"""
    return [any(isinstance(cell, str) for cell in column) for column in zip(*table.cells, strict=True)]


def remark(table: Table, most_columns: int) -> str:
    """On what is not shown of a table"""
    sizes = (("rows", len(table.cells), MOST_ROWS), ("columns", len(table.cells[0]), most_columns))
    hidden = [f"{n - most} more {name}" for name, n, most in sizes if n > most]
    return f"({' and '.join(hidden)} not shown; --json has all)" if hidden else ""


def number(value: float, *beside: float) -> str:
    """Four digits of the greatest count, and no zeros stand at the end of all"""
    values = [abs(x) for x in (value, *beside)]
    if not max(values):
        return "0"
    places = max(0, _DIGITS - 1 - math.floor(math.log10(max(values))))
    if places > _PLACES:
        return _signed(f"{value:.1e}") if value else "0"
    while places and all(round(x, places) == round(x, places - 1) for x in values):
        places -= 1
    return _signed(f"{value:.{places}f}")


def _shown(cell: Cell, floats: Sequence[float]) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return _signed(f"{cell:,}" if abs(cell) >= 10_000 else str(cell))
    if not math.isfinite(cell):
        return "−∞" if cell < 0 else "∞"
    return number(cell, *floats)


def _floats(cells: Sequence[Cell]) -> list[float]:
    return [cell for cell in cells if isinstance(cell, float) and math.isfinite(cell)]


def _signed(text: str) -> str:
    """A true minus; zero has none"""
    if not text.startswith("-"):
        return text
    return text[1:] if not text.strip("-0.") else f"−{text[1:]}"
