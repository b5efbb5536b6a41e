"""HTML for notebooks and pages: a sentence pair, and a table of attention weights. No script needed."""

from collections.abc import Sequence
from html import escape

from regard.text.labels import make_printable

MAX_TOKENS = 64  # rows or columns of a table
_MAX_HORIZONTAL = 10  # with more columns than this their labels are written vertically
_PADDING = "padding:.15em .4em"


def sentence_pair_html(source: str, target: str) -> str:
    """Return the source and, if it differs, the target in bold."""
    return text_html(source) + text_html(target, bold=True) * (source != target)


def text_html(text: str, bold: bool = False) -> str:
    """Return a text as a paragraph; the browser chooses the direction of writing."""
    content = escape(make_printable(text))
    return f'<p dir="auto">{f"<strong>{content}</strong>" if bold else content}</p>'


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
    colour = "white" if weight > 0.7 else "inherit"
    style = f"background:rgba(33,102,172,{weight:.2f});color:{colour};text-align:right;{_PADDING}"
    return f'<td style="{style}">{100 * weight:.0f}</td>'


def word_links_html(links: Sequence[tuple[str, str]]) -> str:
    """Return the pairs (source word, target word) of an alignment as a line of text."""
    shown = ", ".join(f"{escape(make_printable(s))} – {escape(make_printable(t))}" for s, t in links[:MAX_TOKENS])
    more = f" … and {len(links) - MAX_TOKENS:,} more" if len(links) > MAX_TOKENS else ""
    return f"<div>alignment: {shown}{more}</div>"


def score_table_html(titles: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of numbers and the texts that they belong to, at most `MAX_TOKENS` of them."""
    head = "".join(f'<th scope="col" style="text-align:left">{escape(title)}</th>' for title in titles)
    body = "".join(
        f'<tr><td style="text-align:right">{escape(number)}</td>'
        f'<td dir="auto" style="text-align:left">{escape(make_printable(text))}</td></tr>'
        for number, text in rows[:MAX_TOKENS]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def image_row_html(images: Sequence[tuple[str, str]]) -> str:
    """Return images (HTML, name) side by side with their names below, at most `MAX_TOKENS` of them."""
    style = "display:inline-block;margin:.3em;text-align:center"
    figures = (
        f'<figure style="{style}">{image}<figcaption>{escape(name)}</figcaption></figure>'
        for image, name in images[:MAX_TOKENS]
    )
    return f"<div>{''.join(figures)}</div>"
