"""HTML for notebooks and pages: a sentence pair, and a table of attention weights. No script needed."""

from collections.abc import Sequence
from html import escape

from regard.text.labels import make_printable

MAX_TOKENS = 64  # rows or columns of a table
_MAX_HORIZONTAL = 10  # with more columns than this their labels are written vertically
_PADDING = "padding:.15em .4em"


def sentence_pair_html(source: str, target: str) -> str:
    """Return the source and, if it differs, the target in bold; the browser chooses the direction of writing."""
    first, second = (escape(make_printable(text)) for text in (source, target))
    return f'<p dir="auto">{first}</p>' + f'<p dir="auto"><strong>{second}</strong></p>' * (source != target)


def weight_table_html(rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]]) -> str:
    """Return a table of weights [rows, columns] in percent; the larger a weight, the bluer its cell.

    The colours work on light and dark pages. Matrices above `MAX_TOKENS` on a side give one line of text instead.
    """
    if max(len(rows), len(columns)) > MAX_TOKENS:
        return f"<p>{len(rows):,} × {len(columns):,} tokens are too many for a table</p>"
    vertical = "writing-mode:vertical-rl;" if len(columns) > _MAX_HORIZONTAL else ""
    head = "".join(
        f'<th scope="col" style="{vertical}font-weight:normal;{_PADDING}">{escape(name)}</th>' for name in columns
    )
    body = "".join(
        f'<tr><th scope="row" style="text-align:right;font-weight:normal;{_PADDING}">{escape(name)}</th>'
        f"{''.join(map(_cell, row))}</tr>"
        for name, row in zip(rows, weights, strict=True)
    )
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:85%">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(weight: float) -> str:
    colour = "white" if weight > 0.5 else "inherit"
    style = f"background:rgba(33,102,172,{weight:.2f});color:{colour};text-align:right;{_PADDING}"
    return f'<td style="{style}">{100 * weight:.0f}</td>'
