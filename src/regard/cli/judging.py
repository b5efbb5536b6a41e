"""Verbs that set models against each other: compare, bench."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import Device, app, checked_device, say
from regard.cli.training import TwoValidFiles
from regard.errors import UserError

bench_app = typer.Typer(help="Measure the parts that models are made of.", rich_markup_mode=None)
app.add_typer(bench_app, name="bench")


@app.command(cls=TwoValidFiles)
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Training pairs: two line-aligned files, or one .tsv or .jsonl."),
    ],
    test: Annotated[tuple[Path, Path], typer.Option(metavar="SRC TGT", help="Test pairs: two line-aligned files.")],
    recipes: Annotated[
        list[str],
        typer.Option(
            metavar="A,B,…", help="Named recipes or YAML files; tiny+model.positions=rotary is a variant of tiny."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write: a model directory each, and the tables.")],
    valid: Annotated[list[Path] | None, typer.Option(metavar="SRC TGT", help="Validation files.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(metavar="GOLD", help="Word alignments of the test pairs, lines of 0-0 1-2.")
    ] = None,
    updates: Annotated[int | None, typer.Option(min=1, help="Each model trains for so many updates.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Or for so many seconds.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of all recipes, or tiny:KEY=VALUE of one."),
    ] = None,
    lengths: Annotated[
        str, typer.Option(metavar="N,N,…", help="The longest source, in words, of each bucket but the last.")
    ] = "5,10,15,20",
    beam: Annotated[int, typer.Option(min=1, help="Beam width on the test set; 1 is greedy.")] = 1,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer.")] = "13a",
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Measure again what is finished (it trains no more).")
    ] = False,
    device: Device = None,
) -> None:
    """Train recipes on the same data under an equal budget, and test them: tables and a picture."""
    from regard.look.compare import Comparison, run_comparison, split_entrants
    from regard.look.contest import Test
    from regard.look.standings import save_standings
    from regard.train.stop import Stopped

    plan = Comparison(
        entrants=tuple(entrant for text in recipes for entrant in split_entrants(text)),
        train=tuple(files),
        valid=tuple(valid) if valid else None,
        test=Test(test, alignments, _rising(lengths, "--lengths"), beam, tokenize),
        out=out,
        updates=updates,
        seconds=seconds,
        settings=tuple(set_ or ()),
        device=checked_device(device),
        repeat=repeat,
    )
    try:
        rows = run_comparison(plan)
    except Stopped as stopped:
        typer.echo("regard: saved what was trained; the same command goes on", err=True)
        raise typer.Exit(128 + stopped.signal_number) from None
    _show(*save_standings(rows, out))
    if all("error" in row for row in rows):
        raise UserError(f"none of the models could be trained: {rows[0]['error']}")


@bench_app.callback()
def bench() -> None:
    """Measure the parts that models are made of."""


@bench_app.command()
def scaling(
    out: Annotated[Path, typer.Option(help="The folder for scaling.json, .png and .svg.")],
    lengths: Annotated[
        str, typer.Option(metavar="N,N,…", help="Lengths of the sequence.")
    ] = "64,128,256,512,1024,2048,4096,8192",
    max_seconds: Annotated[float, typer.Option(min=1, help="About so long in all.")] = 60,
    device: Device = None,
) -> None:
    """Time and memory of one layer against the length of the sequence: recurrent, attention, linear, state space."""
    from regard.look.scaling import measure_scaling, save_scaling

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be made a folder ({error.strerror})") from None
    curves = measure_scaling(_rising(lengths, "--lengths"), max_seconds, checked_device(device))
    _show(*save_scaling(curves, out))


def _show(text: str, paths: list[Path]) -> None:
    say("\n".join([text, "", *map(str, paths)]))


def _rising(text: str, option: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(numbers) != text.count(",") + 1 or numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise UserError(f"{option} {text}: give rising numbers between commas, for example 5,10,20")
    return tuple(numbers)
