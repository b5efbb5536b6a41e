"""The report of a comparison: tables in Markdown and a plot."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from regard.compare.measure import ResultRow
from regard.files import write_atomically
from regard.visualize.figure import has_matplotlib, new_figure, save_figure

_MARKERS = "osD^vP*X"

ScoreKey = Literal["exact", "bleu"]
_SCORE_TITLES: dict[ScoreKey, str] = {"exact": "Exact match %", "bleu": "BLEU"}


def _number(form: str, scale: float = 1.0) -> Callable[[Any], str]:
    return lambda value: "–" if value is None else format(value if scale == 1.0 else value * scale, form)


COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "parameters": ("parameters", _number(",")),
    "updates": ("updates", _number(",")),
    "train tokens/s": ("train_tokens_per_second", _number(",.0f")),
    "valid loss": ("valid_loss", _number(".3f")),
    "BLEU": ("bleu", _number(".1f")),
    "chrF": ("chrf", _number(".1f")),
    "exact %": ("exact", _number(".1f")),
    "AER %": ("aer", _number(".1f", 100.0)),
    "sentences/s": ("sentences_per_second", _number(",.0f")),
    "peak MiB": ("peak_memory", _number(",.0f", 2.0**-20)),
}
"""Title of a column → (key of ResultRow, how its value is formatted)"""


def save_report(rows: Sequence[ResultRow], folder: Path) -> tuple[str, list[Path]]:
    """Write compare.json, compare.md and, with matplotlib, compare.png and .svg. Return the text and the paths."""
    text, paths = to_markdown(rows), [folder / "compare.json", folder / "compare.md"]
    write_atomically(paths[0], (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode())
    write_atomically(paths[1], f"{text}\n".encode())
    return text, [*paths, *draw_report(rows, folder / "compare")]


def to_markdown(rows: Sequence[ResultRow]) -> str:
    """Return a table of all measurements, a table of each score by source length, and the errors of failed models."""
    good = [row for row in rows if "error" not in row]
    failed = [row for row in rows if "error" in row]
    parts = []
    if good:
        columns = {title: column for title, column in COLUMNS.items() if any(column[0] in row for row in good)}
        body = [[row["model"], *(write(row.get(key)) for key, write in columns.values())] for row in good]
        parts.append(markdown_table(["model", *columns], body))
        parts += [f"{title} by length of the source\n\n{_by_length(good, key)}" for key, title in _SCORE_TITLES.items()]
    if failed:
        parts.append("Failed\n\n" + "\n".join(f"- {row['model']}: {row['error']}" for row in failed))
    return "\n\n".join(parts)


def _by_length(rows: Sequence[ResultRow], key: ScoreKey) -> str:
    buckets = rows[0]["by_length"]
    body = [[row["model"], *(f"{bucket[key]:.1f}" for bucket in row["by_length"])] for row in rows]
    counts = ["*sentences*", *(f"{bucket['sentences']:,}" for bucket in buckets)]
    return markdown_table(["model", *(bucket["words"] for bucket in buckets)], [*body, counts])


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns also line up as plain text."""
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * w if i == 0 else "-" * (w - 1) + ":") for i, w in enumerate(widths)]
    return "\n".join([line(head), f"| {' | '.join(rule)} |", *map(line, body)])


def draw_report(rows: Sequence[ResultRow], path: Path) -> list[Path]:
    """Draw the score by source length, one line per model, and bars of the overall score; `path`.png and .svg.

    The score is the percentage of exact matches, or BLEU if no model has at least 5 % of them.
    """
    good = [row for row in rows if "error" not in row]
    if not good or not has_matplotlib():
        return []
    key: ScoreKey = "exact" if max(row["exact"] for row in good) >= 5 else "bleu"
    names = [_axis_label(row["model"]) for row in good]
    longest = max(len(line) for name in names for line in name.split("\n"))
    figure = new_figure(7.5 + 0.07 * longest, max(3.4, 1.3 + 0.42 * len(good)))
    lines, bars = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_lines(lines, good, key)
    _draw_bars(bars, good, key, names)
    for axes in (lines, bars):
        axes.spines[["top", "right"]].set_visible(False)
    return [save_figure(figure, path.with_name(f"{path.name}.{kind}")) for kind in ("png", "svg")]


def _draw_lines(axes: Any, rows: Sequence[ResultRow], key: ScoreKey) -> None:
    buckets = [bucket["words"] for bucket in rows[0]["by_length"]]
    for i, (row, colour) in enumerate(zip(rows, _colours(len(rows)), strict=True)):
        # Shift the lines sideways a little, so that lines of the same height do not hide each other.
        shift = 0.24 * (i - (len(rows) - 1) / 2) / len(rows)
        x = [position + shift for position in range(len(buckets))]
        y = [bucket[key] for bucket in row["by_length"]]
        axes.plot(x, y, color=colour, marker=_MARKERS[i % len(_MARKERS)], markersize=5, linewidth=1.4)
    axes.set_xticks(range(len(buckets)), buckets)
    axes.set(xlabel="length of the source", ylabel=_SCORE_TITLES[key], ylim=(-3, 103), xlim=(-0.4, len(buckets) - 0.6))
    axes.grid(alpha=0.25)


def _draw_bars(axes: Any, rows: Sequence[ResultRow], key: ScoreKey, names: Sequence[str]) -> None:
    colours = _colours(len(rows))
    axes.barh(range(len(rows)), [row[key] for row in rows], color=colours, height=0.62)
    for i, row in enumerate(rows):
        axes.text(row[key] + 1.5, i, f"{row[key]:.1f}", va="center", fontsize=9)
        axes.plot(-3.2, i, marker=_MARKERS[i % len(_MARKERS)], color=colours[i], markersize=6, clip_on=False)
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0, pad=12)
    axes.set_ylim(max(len(rows), 4) - 0.5, -0.5)  # the first model on top; a few bars do not become too thick
    axes.set(xlabel=f"{_SCORE_TITLES[key]}, all lengths", xlim=(0, 113))
    axes.set_xticks(range(0, 101, 25))
    axes.grid(alpha=0.25, axis="x")
    axes.set_axisbelow(True)


def _axis_label(label: str) -> str:
    """Shorten `rnn-dot+model.decoder.attention=none` and put each setting on its own line."""
    name, plus, settings = label.partition("+")
    name = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    return f"{name}{plus}{settings}".replace("+model.", "+").replace("+", "\n+")


def _colours(n: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["tab10"](i % 10) for i in range(n)]
