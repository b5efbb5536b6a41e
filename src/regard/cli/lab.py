"""`regard lab`: short experiments that answer questions of the lectures."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.output import make_out_folder, print_line

if TYPE_CHECKING:
    from regard.labs.report import LabRun

_ALL = "all"


@app.command()
def lab(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help=f"A lab, or {_ALL}.  [default: list the labs]", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for reports and plots.")] = Path("runs/labs"),
    seed: Annotated[int, typer.Option(min=0, max=9999, help="Determines initial weights and data.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Hardly any training, in seconds: only checks that the lab runs.")
    ] = False,
) -> None:
    """Answer a question of the lectures by a short experiment.

    Each lab trains small models on the CPU, prints a table and an answer, and draws a plot.
    """
    from regard.labs import LABS, lab_named
    from regard.labs.report import save_index, save_lab_report, to_text
    from regard.visualize.figure import has_matplotlib

    if name is None:
        print_line(_list_labs())
        return
    names = list(LABS) if name == _ALL else [name]
    lab_named(names[0])  # an unknown name is an error before the folder is created
    make_out_folder(out)
    runs = []
    for lab_name in names:
        run = _run_lab(lab_name, seed, quick)
        paths = save_lab_report(run, out)
        print_line("\n".join([to_text(run), "", *map(str, paths), ""]))
        runs.append(run)
    if name == _ALL:
        print_line(str(save_index(runs, out)))
    if quick:
        print_line("--quick hardly trains: run the lab without it for an answer")
    if not has_matplotlib():
        print_line("no plots: drawing needs a package: pip install 'regard[plot]'")


def _run_lab(name: str, seed: int, quick: bool) -> "LabRun":
    from regard.labs import lab_named
    from regard.labs.report import LabRun

    start = time.perf_counter()
    result = lab_named(name).run(seed, quick)
    command = f"regard lab {name} --seed {seed}{' --quick' if quick else ''}"
    return LabRun(name, result, command, time.perf_counter() - start)


def _list_labs() -> str:
    from regard.labs import LABS

    rows = [f"{name:15}{lab.question:80}about {lab.seconds} s" for name, lab in LABS.items()]
    return "\n".join([*rows, "", "regard lab NAME runs one of them."])
