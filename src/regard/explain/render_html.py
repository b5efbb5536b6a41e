"""Explanations as HTML without scripts: stand-alone pages, or the part of a page that a notebook shows."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from regard.explain.explanation import Explanation, Step, Table
from regard.explain.formula import Formula
from regard.explain.number_format import format_cells, omission_note, text_columns
from regard.explain.plot import plot_figure, plot_svg
from regard.explain.worked_lecture import WorkedSubject
from regard.visualize.figure import figure_image_html, has_matplotlib

_MAX_COLUMNS = 24  # of a table on a page; wide tables scroll sideways
_MAX_COLUMNS_IN_NOTEBOOK = 10  # notebooks are narrow, and may have no styles that let tables scroll

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --soft: #f3f5f8; --line: #d5dae1; --mark: #1f5fa8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6ea; --paper: #15171a; --soft: #1f2227; --line: #3a3f47; --mark: #82b4f0; }
}
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 52rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.3rem; margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1.1rem; }
a { color: var(--mark); }
code { white-space: nowrap; }
pre { background: var(--soft); padding: .5rem .8rem; white-space: pre-wrap; }
ol { padding-left: 1.4rem; }
li { margin: 1.4rem 0; }
math[display=block] { margin: .6rem 0; padding: .2rem 0; overflow-x: auto; overflow-y: hidden; font-size: 1.1rem; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0; white-space: nowrap; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; color: var(--mark); }
.text { text-align: left; }
tbody th { text-align: left; position: sticky; left: 0; background: var(--paper); }
.number { margin: .4rem 0; }
.omission { font-size: .85rem; opacity: .75; margin: 0; }
.result, .note { background: var(--soft); border-left: .25rem solid var(--mark); padding: .6rem .9rem; }
.note { border-color: var(--line); }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); }
figure svg { max-width: 100%; height: auto; display: block; margin: auto; }
"""


def render_html(explanation: Explanation) -> str:
    """Return a stand-alone page, for light and dark mode and any width."""
    return _page_html(explanation.title, [f"<h1>{escape(explanation.title)}</h1>", *_explanation_html(explanation)])


def render_lecture_html(title: str, worked: Iterable[WorkedSubject]) -> str:
    """Return a stand-alone page of a whole lecture, with a list of its subjects at the top."""
    parts = list(worked)
    links = (f'<a href="#s{part.number}">{escape(part.heading)}</a><br/>' for part in parts)
    return _page_html(title, [f"<h1>{escape(title)}</h1>", "<p>", *links, "</p>", *map(_subject_html, parts)])


def _page_html(title: str, body: Sequence[str]) -> str:
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"/>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        *body,
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _subject_html(part: WorkedSubject) -> str:
    commands = "\n".join(escape(command) for command in part.subject.commands)
    parts = [f'<h2 id="s{part.number}">{escape(part.heading)}</h2>', f"<pre>{commands}</pre>"]
    if part.note:
        parts.append(f'<p class="note">Note: {_prose_html(part.note)}</p>')
    if part.explanation:
        parts += [f"<h3>{escape(part.explanation.title)}</h3>", *_explanation_html(part.explanation)]
    return "\n".join(parts)


def _explanation_html(explanation: Explanation) -> list[str]:
    """Return an explanation without its title."""
    return [
        "<ol>",
        *("".join(_step_html(step, _formula_html, _MAX_COLUMNS)) for step in explanation.steps),
        "</ol>",
        f'<p class="result">{_prose_html(explanation.result)}</p>',
        *_plot_html(explanation),
        *(f'<p class="note">Note: {_prose_html(note)}</p>' for note in explanation.notes),
    ]


def render_fragment(explanation: Explanation) -> str:
    """Return a part of a page for notebooks. It needs no style sheet: some viewers of notebooks remove all styles.

    Formulas are text, because the same viewers remove MathML.
    """
    parts = [
        f"<p><strong>{escape(explanation.title)}</strong></p>",
        "<ol>",
        *("".join(_step_html(step, _formula_text_html, _MAX_COLUMNS_IN_NOTEBOOK)) for step in explanation.steps),
        "</ol>",
        f"<p>→ {_prose_html(explanation.result)}</p>",
        *(f"<p>Note: {_prose_html(note)}</p>" for note in explanation.notes),
    ]
    if explanation.plot and has_matplotlib():
        parts.append(figure_image_html(plot_figure(explanation.plot), explanation.title))
    return "\n".join(parts)


def _step_html(step: Step, formula_html: Callable[[Formula], str], max_columns: int) -> Iterator[str]:
    yield f"<li><p>{_prose_html(step.text)}</p>"
    if step.formula:
        yield formula_html(step.formula)
    for table in step.tables:
        yield _table_html(table, max_columns)
    yield "</li>"


def _formula_html(formula: Formula) -> str:
    attributes = f'alttext="{escape(formula.text)}" xmlns="http://www.w3.org/1998/Math/MathML" display="block"'
    return f"<math {attributes}>{formula.mathml}</math>"


def _formula_text_html(formula: Formula) -> str:
    return f"<p><code>{escape(formula.text)}</code></p>"


def _prose_html(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _table_html(table: Table, max_columns: int) -> str:
    if len(table.cells) == len(table.cells[0]) == 1 and table.fits_one_line:
        return f'<p class="number"><b>{escape(table.name)}</b> = {format_cells(table)[0][0]}</p>'
    is_text, corner = text_columns(table), "<th></th>" if table.rows else ""
    names = zip(table.columns[:max_columns], is_text, strict=False)
    header = "".join(_cell_html("th", *each) for each in names)
    head = f"<thead><tr>{corner}{header}</tr></thead>" if header else ""
    row_names = [f"<th>{escape(name)}</th>" for name in table.rows] or [""] * len(table.cells)
    body = "".join(
        f"<tr>{name}{''.join(_cell_html('td', *each) for each in zip(row[:max_columns], is_text, strict=False))}</tr>"
        for name, row in zip(row_names, format_cells(table), strict=False)
    )
    note = omission_note(table, max_columns)
    after = f'<p class="omission">{escape(note)}</p>' if note else ""
    caption = f"<caption>{escape(table.name)}</caption>"
    return f'<div class="wide"><table>{caption}{head}<tbody>{body}</tbody></table></div>{after}'


def _cell_html(tag: str, text: str, is_text: bool) -> str:
    css_class = ' class="text"' if is_text else ""
    return f"<{tag}{css_class}>{escape(text)}</{tag}>"


def _plot_html(explanation: Explanation) -> Iterator[str]:
    """Yield the plot as inline SVG, without the header of an SVG file; nothing if matplotlib is not installed."""
    if explanation.plot is None or not has_matplotlib():
        return
    svg = plot_svg(explanation.plot)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    yield f'<figure role="img" aria-label="{escape(explanation.title)}">{svg}</figure>'
