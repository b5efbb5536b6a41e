"""How models compare, as tables and as a picture."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.compare.run import Row
from regard.files import write_atomically
from regard.visualize.figure import can_draw, new_figure, save_figure

_MARKERS = "osD^vP*X"


def _number(form: str, scale: float = 1.0) -> Callable[[Any], str]:
    return lambda value: "–" if value is None else format(value if scale == 1.0 else value * scale, form)


# Column → (key of the row, how it is written)
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


def save_standings(rows: Sequence[Row], folder: Path) -> tuple[str, list[Path]]:
    """compare.json, compare.md and, where matplotlib is installed, compare.png and .svg → the text, the files"""
    text, paths = to_text(rows), [folder / "compare.json", folder / "compare.md"]
    write_atomically(paths[0], (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode())
    write_atomically(paths[1], f"{text}\n".encode())
    return text, [*paths, *draw_standings(rows, folder / "compare")]


def to_text(rows: Sequence[Row]) -> str:
    """Markdown: one table of everything, one of each score by length, and what failed."""
    good = [row for row in rows if "error" not in row]
    failed = [row for row in rows if "error" in row]
    parts = []
    if good:
        shown = {name: column for name, column in COLUMNS.items() if any(column[0] in row for row in good)}
        body = [[row["model"], *(write(row.get(key)) for key, write in shown.values())] for row in good]
        parts.append(table(["model", *shown], body))
        parts += [f"{title} by words of the source\n\n{_by_length(good, key)}" for key, title in _SCORES.items()]
    if failed:
        parts.append("Failed\n\n" + "\n".join(f"- {row['model']}: {row['error']}" for row in failed))
    return "\n\n".join(parts)


_SCORES = {"exact": "Exact match %", "bleu": "BLEU"}


def _by_length(rows: Sequence[Row], key: str) -> str:
    buckets = rows[0]["by_length"]
    body = [[row["model"], *(f"{bucket[key]:.1f}" for bucket in row["by_length"])] for row in rows]
    counts = ["*sentences*", *(f"{bucket['sentences']:,}" for bucket in buckets)]
    return table(["model", *(bucket["words"] for bucket in buckets)], [*body, counts])


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up as plain text."""
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * w if i == 0 else "-" * (w - 1) + ":") for i, w in enumerate(widths)]
    return "\n".join([line(head), f"| {' | '.join(rule)} |", *map(line, body)])


def draw_standings(rows: Sequence[Row], path: Path) -> list[Path]:
    """The score by length, a line a model, beside bars of the overall score; `path`.png and .svg.

    The score is how many are exactly right, or BLEU where next to none are.
    """
    good = [row for row in rows if "error" not in row]
    if not good or not can_draw():
        return []
    key = "exact" if max(row["exact"] for row in good) >= 5 else "bleu"
    names = [_shown(row["model"]) for row in good]
    widest = max(len(line) for name in names for line in name.split("\n"))
    figure = new_figure(7.5 + 0.07 * widest, max(3.4, 1.3 + 0.42 * len(good)))
    lines, bars = figure.subplots(1, 2, width_ratios=(1.25, 1))
    buckets = [bucket["words"] for bucket in good[0]["by_length"]]
    colours = _colours(len(good))
    for i, row in enumerate(good):
        # A little aside of each other: lines at the same height stay visible.
        aside = 0.24 * (i - (len(good) - 1) / 2) / len(good)
        heights = [bucket[key] for bucket in row["by_length"]]
        places = [x + aside for x in range(len(buckets))]
        lines.plot(places, heights, color=colours[i], marker=_MARKERS[i % len(_MARKERS)], markersize=5, linewidth=1.4)
    lines.set_xticks(range(len(buckets)), buckets)
    lines.set(xlabel="words of the source", ylabel=_SCORES[key], ylim=(-3, 103), xlim=(-0.4, len(buckets) - 0.6))
    bars.barh(range(len(good)), [row[key] for row in good], color=colours, height=0.62)
    for i, row in enumerate(good):
        bars.text(row[key] + 1.5, i, f"{row[key]:.1f}", va="center", fontsize=9)
        bars.plot(-3.2, i, marker=_MARKERS[i % len(_MARKERS)], color=colours[i], markersize=6, clip_on=False)
    bars.set_yticks(range(len(good)), names)
    bars.tick_params(axis="y", length=0, pad=12)
    bars.set_ylim(max(len(good), 4) - 0.5, -0.5)  # the first on top, and few bars not too thick
    bars.set(xlabel=f"{_SCORES[key]}, all lengths", xlim=(0, 113))
    bars.set_xticks(range(0, 101, 25))
    for axes in (lines, bars):
        axes.spines[["top", "right"]].set_visible(False)
    lines.grid(alpha=0.25)
    bars.grid(alpha=0.25, axis="x")
    bars.set_axisbelow(True)
    return [save_figure(figure, path.with_name(f"{path.name}.{kind}")) for kind in ("png", "svg")]


def _shown(label: str) -> str:
    """`rnn-dot+model.decoder.attention=none` → two lines that are short enough for an axis"""
    name, plus, settings = label.partition("+")
    name = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    return f"{name}{plus}{settings}".replace("+model.", "+").replace("+", "\n+")


def _colours(n: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["tab10"](i % 10) for i in range(n)]
