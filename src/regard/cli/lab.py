"""The verb that answers a lecture's question by an experiment: lab."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.labs.report import LabRun

_EVERY = "all"


@app.command()
def lab(
    name: Annotated[
        str | None, typer.Argument(help=f"Which one, or {_EVERY}; without it they are listed.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for its page and pictures.")] = Path("runs/labs"),
    seed: Annotated[int, typer.Option(min=0, max=9999, help="Other weights and other data.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="The same with next to no training, in seconds: a trial of the machinery.")
    ] = False,
) -> None:
    """The questions that lectures on attention end with, each as a short experiment with a plot."""
    from regard.labs import LABS, lab_named
    from regard.labs.report import save_index, save_session, to_text
    from regard.visualize.figure import can_draw

    if name is None:
        say(_listing())
        return
    names = list(LABS) if name == _EVERY else [name]
    lab_named(names[0])  # refused before anything is made
    _make(out)
    sessions = []
    for each in names:
        session = _session(each, seed, quick)
        paths = save_session(session, out)
        say("\n".join([to_text(session), "", *map(str, paths), ""]))
        sessions.append(session)
    if name == _EVERY:
        say(str(save_index(sessions, out)))
    if quick:
        say("--quick trains next to nothing: leave it out for an answer")
    if not can_draw():
        say("no pictures: drawing needs a package: pip install 'regard[plot]'")


def _session(name: str, seed: int, quick: bool) -> "LabRun":
    from regard.labs import lab_named
    from regard.labs.report import LabRun

    start = time.perf_counter()
    found = lab_named(name).run(seed, quick)
    command = f"regard lab {name} --seed {seed}{' --quick' if quick else ''}"
    return LabRun(name, found, command, time.perf_counter() - start)


def _listing() -> str:
    from regard.labs import LABS

    rows = [f"{name:12}{lab.question:80}about {lab.seconds} s" for name, lab in LABS.items()]
    return "\n".join([*rows, "", "regard lab NAME runs one of them."])


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be made a folder ({error.strerror})") from None
