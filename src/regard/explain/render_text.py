"""A worked computation for a terminal: words, formulas in Unicode, aligned tables."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len

from regard.explain.explanation import Explanation, Step, Table
from regard.explain.number_format import remark, shown, words

WIDTH = 96
_INDENT = "   "


def as_text(worked: Explanation) -> str:
    lines = _wrapped(worked.title, "", "")
    lines.append("=" * max(map(cell_len, lines)))
    for number, step in enumerate(worked.steps, start=1):
        lines += ["", *_wrapped(f"{number}. {step.says}", "", _INDENT), *_numbers(step)]
    lines += ["", *_wrapped(worked.result, "→  ", _INDENT)]
    for note in worked.notes:
        lines += ["", *_wrapped(note, "Note: ", _INDENT)]
    return "\n".join(lines)


def _numbers(step: Step) -> Iterator[str]:
    if step.formula:
        yield from ("", f"{_INDENT}{_INDENT}{step.formula.text}")
    was_plain = False
    for table in step.tables:
        if not (was_plain and table.plain):
            yield ""
        was_plain = table.plain
        yield from (f"{_INDENT}{line}" for line in _table(table))


def _table(table: Table) -> list[str]:
    cells, left = shown(table), words(table)
    n = _fitting(table, cells)
    head, cells, left = list(table.columns[:n]), [row[:n] for row in cells], left[:n]
    after = [remark(table, n)] if remark(table, n) else []
    if table.plain:
        inside = ", ".join(cells[0])
        return [f"{table.name} = {inside}" if len(table.cells[0]) == 1 else f"{table.name} = [{inside}]", *after]
    if not table.rows and len(cells) > 1:
        return [f"{table.name}:", *_aligned([*([head] if head else []), *cells], left), *after]
    rows = table.rows or ("",)
    body = [[name, *row] for name, row in zip(rows, cells, strict=False)]
    return [*_aligned([[table.name, *(head or [""] * n)], *body], [True, *left]), *after]


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[bool]) -> list[str]:
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(*each) for each in zip(row, widths, left, strict=True)).rstrip() for row in rows]


def _padded(text: str, width: int, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


def _fitting(table: Table, cells: list[list[str]]) -> int:
    """How many columns fit the width beside the names"""
    names = (table.name, *table.rows) if table.rows or len(table.cells) == 1 else ("",)
    max_target_len = WIDTH - 2 * len(_INDENT) - max(cell_len(name) for name in names)
    heads = [table.columns] if table.columns else []
    fitting = 0
    for column in zip(*heads, *cells, strict=True):
        max_target_len -= 2 + max(cell_len(cell) for cell in column)
        fitting += max_target_len >= 0
    return max(1, fitting)


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
