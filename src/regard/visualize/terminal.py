"""A heat map in the terminal, never wider than it."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.heatmap import check_token_count, mean_weights

_GAP = 2  # between columns
_LEAST = 3  # cells of a column, for 100


def print_heatmap(record: AttentionRecord, kind: str = "cross", console: Console | None = None) -> None:
    """The darker the blue behind a figure (in per cent), the greater the weight.

    Where the names do not fit beside each other, columns are numbered and a cell is one figure, of tenths. What goes
    into a file or a pipe is plain figures, as wide as it takes.
    """
    console = console or Console()
    weights, (rows, columns) = mean_weights(record, kind), map(token_labels, record.axis_tokens(kind))
    check_token_count(max(weights.shape))
    side = max(map(cell_len, rows))
    full = side + sum(_GAP + max(_LEAST, cell_len(name)) for name in columns)
    if not console.is_terminal or full <= console.width:
        lines = _wide(weights, rows, columns, side)
    else:
        lines = _narrow(weights, rows, columns, min(side, console.width // 4), console.width)
    for line in lines:
        console.print(line, soft_wrap=True)


def _wide(weights: Weights, rows: Sequence[str], columns: Sequence[str], side: int) -> Iterator[Text]:
    widths = [max(_LEAST, cell_len(name)) for name in columns]
    yield Text(" " * side + "".join(" " * _GAP + _right(name, w) for name, w in zip(columns, widths, strict=True)))
    for name, row in zip(rows, weights, strict=True):
        line = Text(_right(name, side))
        for weight, width in zip(row, widths, strict=True):
            line.append(" ").append(f"{100 * weight:.0f}".rjust(width + _GAP - 1), style=_shade(float(weight)))
        yield line


def _narrow(weights: Weights, rows: Sequence[str], columns: Sequence[str], side: int, width: int) -> Iterator[Text]:
    """As many columns at a time as fit, then what their numbers stand for"""
    step = max(1, width - side - 1)
    digits = len(str(len(columns) - 1))
    for start in range(0, len(columns), step):
        shown = range(start, min(start + step, len(columns)))
        for digit in range(digits):
            yield Text(" " * (side + 1) + "".join(str(i).rjust(digits)[digit] for i in shown), style="dim")
        for name, row in zip(rows, weights[:, shown], strict=True):
            line = Text(_right(name, side) + " ")
            for weight in row:
                line.append(_tenths(float(weight)), style=_shade(float(weight)))
            yield line
    yield from _legend(["cells: tenths.", *(f"{i} {name}" for i, name in enumerate(columns))], width)


def _legend(entries: Sequence[str], width: int) -> Iterator[Text]:
    line = ""
    for entry in entries:
        longer = f"{line}  {entry}" if line else entry
        if cell_len(longer) > width:
            yield Text(line)
            longer = set_cell_size(entry, min(cell_len(entry), width))
        line = longer
    yield Text(line)


def _right(name: str, width: int) -> str:
    """To the right of so many cells; a Chinese character fills two."""
    return " " * (width - cell_len(name)) + set_cell_size(name, min(width, cell_len(name)))


def _tenths(weight: float) -> str:
    return str(min(9, int(10 * weight + 1e-6))) if weight >= 0.1 else "·"


def _shade(weight: float) -> str:
    light = round(255 * (1 - min(1.0, weight)))
    return f"{'black' if weight < 0.5 else 'white'} on rgb({light},{light},255)"
