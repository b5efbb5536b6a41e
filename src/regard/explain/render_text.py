"""An explanation for a terminal: sentences, formulas in Unicode, aligned tables."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len

from regard.explain.explanation import Explanation, Step, Table
from regard.explain.number_format import format_cells, omission_note, text_columns
from regard.explain.worked_lecture import WorkedSubject

WIDTH = 96
_INDENT = "   "


def render_text(explanation: Explanation) -> str:
    lines = _wrap(explanation.title, "", "")
    lines.append("=" * max(map(cell_len, lines)))
    for number, step in enumerate(explanation.steps, start=1):
        lines += ["", *_wrap(f"{number}. {step.text}", "", _INDENT), *_formula_and_tables(step)]
    lines += ["", *_wrap(explanation.result, "→  ", _INDENT)]
    for note in explanation.notes:
        lines += ["", *_wrap(note, "Note: ", _INDENT)]
    return "\n".join(lines)


def render_lecture_text(worked: Iterable[WorkedSubject]) -> Iterator[str]:
    """Yield each subject of a lecture as it is worked through: its heading, its commands and its explanation."""
    for part in worked:
        lines = [f"━━ {part.heading}", *(f"{_INDENT}{command}" for command in part.subject.commands)]
        if part.note:
            lines += ["", *_wrap(part.note, "Note: ", _INDENT)]
        if part.explanation:
            lines += ["", render_text(part.explanation)]
        yield "\n".join([*lines, "", ""])


def _formula_and_tables(step: Step) -> Iterator[str]:
    if step.formula:
        yield from ("", f"{_INDENT}{_INDENT}{step.formula.text}")
    after_one_line = False
    for table in step.tables:
        if not (after_one_line and table.fits_one_line):
            yield ""
        after_one_line = table.fits_one_line
        yield from (f"{_INDENT}{line}" for line in _table_lines(table))


def _table_lines(table: Table) -> list[str]:
    cells, is_text = format_cells(table), text_columns(table)
    n = _n_fitting_columns(table, cells)
    header, cells, is_text = list(table.columns[:n]), [row[:n] for row in cells], is_text[:n]
    note = [omission_note(table, n)] if omission_note(table, n) else []
    if table.fits_one_line:
        values = ", ".join(cells[0])
        return [f"{table.name} = {values}" if len(table.cells[0]) == 1 else f"{table.name} = [{values}]", *note]
    if not table.rows and len(cells) > 1:
        return [f"{table.name}:", *_align([*([header] if header else []), *cells], is_text), *note]
    rows = table.rows or ("",)
    body = [[name, *row] for name, row in zip(rows, cells, strict=False)]
    return [*_align([[table.name, *(header or [""] * n)], *body], [True, *is_text]), *note]


def _align(rows: Sequence[Sequence[str]], is_text: Sequence[bool]) -> list[str]:
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(_pad(*each) for each in zip(row, widths, is_text, strict=True)).rstrip() for row in rows]


def _pad(text: str, width: int, is_text: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if is_text else space + text


def _n_fitting_columns(table: Table, cells: list[list[str]]) -> int:
    """Return how many columns fit the width next to the names of the rows; at least one."""
    names = (table.name, *table.rows) if table.rows or len(table.cells) == 1 else ("",)
    room = WIDTH - 2 * len(_INDENT) - max(cell_len(name) for name in names)
    header = [table.columns] if table.columns else []
    n_fitting = 0
    for column in zip(*header, *cells, strict=True):
        room -= 2 + max(cell_len(cell) for cell in column)
        n_fitting += room >= 0
    return max(1, n_fitting)


def _wrap(text: str, first: str, others: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
