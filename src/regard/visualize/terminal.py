"""A heat map in the terminal, never wider than the terminal."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from regard.models.record import AttentionRecord, Weights
from regard.text.labels import token_labels
from regard.visualize.heatmap import check_token_count, mean_weights

_GAP = 2  # terminal cells between columns
_MIN_WIDTH = 3  # terminal cells of a column, enough for 100


def render_heatmap(record: AttentionRecord, kind: str = "cross", console: Console | None = None) -> str:
    """Return the mean attention in percent as text; the larger a weight, the darker the blue behind it.

    If the column labels do not fit next to each other, columns are numbered and each cell is one digit (tenths).
    If standard output is a file or a pipe, it is plain text of any width.
    """
    console = console or Console()
    weights, (rows, columns) = mean_weights(record, kind), map(token_labels, record.axis_tokens(kind))
    check_token_count(max(weights.shape))
    label_width = max(map(cell_len, rows))
    full_width = label_width + sum(_GAP + max(_MIN_WIDTH, cell_len(label)) for label in columns)
    if not console.is_terminal or full_width <= console.width:
        lines = _percent_lines(weights, rows, columns, label_width)
    else:
        lines = _digit_lines(weights, rows, columns, min(label_width, console.width // 4), console.width)
    with console.capture() as text:
        for line in lines:
            console.print(line, soft_wrap=True)
    return text.get().rstrip("\n")


def _percent_lines(weights: Weights, rows: Sequence[str], columns: Sequence[str], label_width: int) -> Iterator[Text]:
    widths = [max(_MIN_WIDTH, cell_len(label)) for label in columns]
    header = (" " * _GAP + _align_right(label, width) for label, width in zip(columns, widths, strict=True))
    yield Text(" " * label_width + "".join(header))
    for label, row in zip(rows, weights, strict=True):
        line = Text(_align_right(label, label_width))
        for weight, width in zip(row, widths, strict=True):
            line.append(" ").append(f"{100 * weight:.0f}".rjust(width + _GAP - 1), style=_cell_style(float(weight)))
        yield line


def _digit_lines(
    weights: Weights, rows: Sequence[str], columns: Sequence[str], label_width: int, width: int
) -> Iterator[Text]:
    """Yield blocks of as many columns as fit, then a legend of the column numbers."""
    n_per_block = max(1, width - label_width - 1)
    n_digits = len(str(len(columns) - 1))
    for start in range(0, len(columns), n_per_block):
        block = range(start, min(start + n_per_block, len(columns)))
        for digit in range(n_digits):
            yield Text(" " * (label_width + 1) + "".join(str(i).rjust(n_digits)[digit] for i in block), style="dim")
        for label, row in zip(rows, weights[:, block], strict=True):
            line = Text(_align_right(label, label_width) + " ")
            for weight in row:
                line.append(_tenths(float(weight)), style=_cell_style(float(weight)))
            yield line
    yield from _legend(["cells: tenths.", *(f"{i} {label}" for i, label in enumerate(columns))], width)


def _legend(entries: Sequence[str], width: int) -> Iterator[Text]:
    line = ""
    for entry in entries:
        longer = f"{line}  {entry}" if line else entry
        if cell_len(longer) > width:
            yield Text(line)
            longer = set_cell_size(entry, min(cell_len(entry), width))
        line = longer
    yield Text(line)


def _align_right(label: str, width: int) -> str:
    """Pad or cut a label to `width` terminal cells; a Chinese character takes two."""
    return " " * (width - cell_len(label)) + set_cell_size(label, min(width, cell_len(label)))


def _tenths(weight: float) -> str:
    return str(min(9, int(10 * weight + 1e-6))) if weight >= 0.1 else "·"


def _cell_style(weight: float) -> str:
    level = round(255 * (1 - min(1.0, weight)))
    return f"{'black' if weight < 0.5 else 'white'} on rgb({level},{level},255)"
