"""A worked computation as a page of its own: no script, nothing from elsewhere, light and dark, narrow and wide."""

import re
from collections.abc import Iterator
from html import escape

from regard.explain.explanation import Explanation, Step, Table
from regard.explain.formula import Formula
from regard.explain.number_format import remark, shown, words
from regard.explain.plot import svg
from regard.visualize.figure import has_matplotlib

_MOST_COLUMNS = 24  # the page scrolls a wide table sideways

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --soft: #f3f5f8; --line: #d5dae1; --mark: #1f5fa8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6ea; --paper: #15171a; --soft: #1f2227; --line: #3a3f47; --mark: #82b4f0; }
}
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 52rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; }
ol { padding-left: 1.4rem; }
li { margin: 1.4rem 0; }
math[display=block] { margin: .8rem 0; overflow-x: auto; overflow-y: hidden; font-size: 1.1rem; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0; white-space: nowrap; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; color: var(--mark); }
.word { text-align: left; }
tbody th { text-align: left; position: sticky; left: 0; background: var(--paper); }
.number { margin: .4rem 0; }
.remark { font-size: .85rem; opacity: .75; margin: 0; }
.result, .note { background: var(--soft); border-left: .25rem solid var(--mark); padding: .6rem .9rem; }
.note { border-color: var(--line); }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); }
figure svg { max-width: 100%; height: auto; display: block; margin: auto; }
"""


def as_page(worked: Explanation) -> str:
    title = escape(worked.title)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"/>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        "<ol>",
        *("".join(_step(step)) for step in worked.steps),
        "</ol>",
        f'<p class="result">{_prose(worked.result)}</p>',
        *_picture(worked),
        *(f'<p class="note">Note: {_prose(note)}</p>' for note in worked.notes),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _step(step: Step) -> Iterator[str]:
    yield f"<li><p>{_prose(step.says)}</p>"
    if step.formula:
        yield _formula(step.formula)
    for table in step.tables:
        yield _table(table)
    yield "</li>"


def _formula(formula: Formula) -> str:
    inside = f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{formula.mathml}</math>'
    return inside.replace("<math ", f'<math alttext="{escape(formula.text)}" ', 1)


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _table(table: Table) -> str:
    if len(table.cells) == len(table.cells[0]) == 1 and table.plain:
        return f'<p class="number"><b>{escape(table.name)}</b> = {shown(table)[0][0]}</p>'
    left, corner = words(table), "<th></th>" if table.rows else ""
    heads = "".join(_cell("th", name, word) for name, word in zip(table.columns[:_MOST_COLUMNS], left, strict=False))
    head = f"<thead><tr>{corner}{heads}</tr></thead>" if heads else ""
    names = [f"<th>{escape(name)}</th>" for name in table.rows] or [""] * len(table.cells)
    body = "".join(
        f"<tr>{name}{''.join(_cell('td', *each) for each in zip(row[:_MOST_COLUMNS], left, strict=False))}</tr>"
        for name, row in zip(names, shown(table), strict=False)
    )
    hidden = remark(table, _MOST_COLUMNS)
    after = f'<p class="remark">{escape(hidden)}</p>' if hidden else ""
    caption = f"<caption>{escape(table.name)}</caption>"
    return f'<div class="wide"><table>{caption}{head}<tbody>{body}</tbody></table></div>{after}'


def _cell(tag: str, text: str, word: bool) -> str:
    kind = ' class="word"' if word else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"


def _picture(worked: Explanation) -> Iterator[str]:
    """As it is drawn in a file, without what a file needs around it; none where matplotlib is not installed"""
    if worked.picture is None or not has_matplotlib():
        return
    drawn = svg(worked.picture)
    inside = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    yield f'<figure role="img" aria-label="{escape(worked.title)}">{inside}</figure>'
