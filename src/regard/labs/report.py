"""What labs found, written: for the terminal, and as pages of Markdown with pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.compare.report import markdown_table
from regard.files import write_atomically
from regard.labs.plot import draw_lab
from regard.labs.result import LabResult

_INDEX = """# Labs

The questions that lectures on attention end with, each as an experiment of at most two minutes on a CPU. `regard lab`
lists them; `regard lab NAME` runs one, prints what it found and draws it; `--seed N` has other weights and other data.
The answers are written from the figures of the run: where it does not bear a claim out, none is made."""


@dataclass(frozen=True)
class LabRun:
    """A lab that was run"""

    name: str
    found: LabResult
    command: str
    seconds: float


def to_text(session: LabRun) -> str:
    found = session.found
    return "\n\n".join(
        [found.question, found.setup, markdown_table(found.table[0], found.table[1:]), "\n".join(found.answer)]
    )


def save_session(session: LabRun, folder: Path) -> list[Path]:
    """NAME.md and, where matplotlib is installed, NAME.png and .svg"""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw_lab(session.found, folder / session.name)
    page = folder / f"{session.name}.md"
    write_atomically(page, to_markdown(session, pictures[0] if pictures else None).encode())
    return [page, *pictures]


def to_markdown(session: LabRun, picture: Path | None) -> str:
    found = session.found
    parts = [
        f"# {found.question}",
        found.setup,
        f"```sh\n{session.command}\n```",
        markdown_table(found.table[0], found.table[1:]),
        *([f"![{found.panels[0].title}]({picture.name})"] if picture else []),
        " ".join(found.answer),
        f"This run took {session.seconds:.2g} seconds. All labs: [README.md](README.md).",
    ]
    return "\n\n".join(parts) + "\n"


def save_index(sessions: Sequence[LabRun], folder: Path) -> Path:
    """README.md: every lab with its question and how long it took"""
    rows = [(f"[{s.found.question}]({s.name}.md)", s.name, f"{s.seconds:.2g}") for s in sessions]
    text = "\n\n".join([_INDEX, markdown_table(("question", "lab", "seconds"), rows)])
    path = folder / "README.md"
    write_atomically(path, f"{text}\n".encode())
    return path
