"""Tokens and weights for people: labels of tokens, and a table in HTML that needs no script."""

from collections.abc import Sequence
from html import escape
from unicodedata import category

LONGEST = 16  # characters of a label
MOST = 64  # rows or columns of a table
_SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥"}
_ROOM = "padding:.15em .4em"
_UPRIGHT = 10  # columns whose labels lie; those of more stand


def labels(tokens: Sequence[str]) -> list[str]:
    """Tokens for people: pieces of words are seen as such; whole words and single characters stay as they are."""
    marked = any(token.startswith("▁") for token in tokens)
    seen = map(_visible, tokens)
    return [shortened(readable(token) if marked else token) for token in seen]


def readable(token: str) -> str:
    """`▁house` → `house`, and `ing` → `-ing`, so that pieces of one word are seen as such."""
    if (token.startswith("<") and token.endswith(">")) or token in _SIGNS.values():
        return token
    if token.startswith("▁"):
        return token[1:] or "▁"
    return f"-{token}"


def shortened(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def _visible(token: str) -> str:
    """A space gets a sign; what no page and no picture may hold, as control characters, is written like a byte."""
    if token in _SIGNS:
        return _SIGNS[token]
    return "".join(f"<0x{ord(c):02X}>" if category(c) in ("Cc", "Cs") else c for c in token)


def pair_html(source: str, target: str) -> str:
    """A sentence and what became of it, if it did not stay the same, each in its own direction of writing"""
    first, second = (escape(_visible(text)) for text in (source, target))
    return f'<p dir="auto">{first}</p>' + f'<p dir="auto"><strong>{second}</strong></p>' * (source != target)


def table_html(rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]]) -> str:
    """Weights [rows, columns] in per cent, the bluer the greater. The colours suit light and dark pages."""
    if max(len(rows), len(columns)) > MOST:
        return f"<p>{len(rows):,} × {len(columns):,} tokens are too many for a table</p>"
    stand = "writing-mode:vertical-rl;" if len(columns) > _UPRIGHT else ""
    head = "".join(f'<th scope="col" style="{stand}font-weight:normal;{_ROOM}">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row" style="text-align:right;font-weight:normal;{_ROOM}">{escape(name)}</th>'
        f"{''.join(map(_cell, row))}</tr>"
        for name, row in zip(rows, weights, strict=True)
    )
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:85%">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(weight: float) -> str:
    colour = "white" if weight > 0.5 else "inherit"
    style = f"background:rgba(33,102,172,{weight:.2f});color:{colour};text-align:right;{_ROOM}"
    return f'<td style="{style}">{100 * weight:.0f}</td>'
