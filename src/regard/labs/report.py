"""Reports of labs: text for the terminal, Markdown pages with plots, and HTML for notebooks."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from regard.compare.report import markdown_table
from regard.files import write_atomically
from regard.labs.plot import draw_lab, lab_figure
from regard.labs.result import LabResult
from regard.visualize.figure import figure_image_html, has_matplotlib

_INDEX = """# Labs

Questions of the lectures on attention, each answered by an experiment of at most two minutes on a CPU.
`regard lab` lists them. `regard lab NAME` runs one, prints its table and answer and draws a plot. `--seed N` uses other
initial weights and other data. The answers quote the numbers of the run; a claim that a run does not support is not
made."""


@dataclass(frozen=True)
class LabRun:
    """A lab that has been run, with its command and duration."""

    name: str
    result: LabResult
    command: str
    seconds: float


def to_text(run: LabRun) -> str:
    """Return the report for the terminal."""
    result = run.result
    return "\n\n".join([result.question, result.setup, _table(result), "\n".join(result.answer)])


def save_lab_report(run: LabRun, folder: Path) -> list[Path]:
    """Write NAME.md and, if matplotlib is installed, NAME.png and NAME.svg; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = draw_lab(run.result, folder / run.name)
    page = folder / f"{run.name}.md"
    write_atomically(page, to_markdown(run, plots[0] if plots else None).encode())
    return [page, *plots]


def to_markdown(run: LabRun, plot: Path | None) -> str:
    """Return the report as a Markdown page; `plot` is the file to include."""
    result = run.result
    parts = [
        f"# {result.question}",
        result.setup,
        f"```sh\n{run.command}\n```",
        _table(result),
        *([f"![{'; '.join(panel.title for panel in result.panels)}]({plot.name})"] if plot else []),
        " ".join(result.answer),
        f"This run took {_format_seconds(run.seconds)} seconds. All labs: [README.md](README.md).",
    ]
    return "\n\n".join(parts) + "\n"


def to_html(result: LabResult) -> str:
    """Return a result as the part of a page that a notebook shows, with its plot if matplotlib is installed."""
    head = "".join(f"<th>{escape(title)}</th>" for title in result.table.header())
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in result.table.formatted_rows())
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = "; ".join(panel.title for panel in result.panels)
    parts = [
        f"<p><strong>{escape(result.question)}</strong></p><p>{escape(result.setup)}</p>",
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
        figure_image_html(lab_figure(result), title) if has_matplotlib() else "",
        f"<p>{escape(' '.join(result.answer))}</p>",
    ]
    return "\n".join(parts)


def save_index(runs: Sequence[LabRun], folder: Path) -> Path:
    """Write README.md, which lists the labs with their questions and durations, and return its path."""
    rows = [(f"[{run.result.question}]({run.name}.md)", run.name, _format_seconds(run.seconds)) for run in runs]
    text = "\n\n".join([_INDEX, markdown_table(("question", "lab", "seconds"), rows)])
    path = folder / "README.md"
    write_atomically(path, f"{text}\n".encode())
    return path


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def _table(result: LabResult) -> str:
    return markdown_table(result.table.header(), result.table.formatted_rows())
