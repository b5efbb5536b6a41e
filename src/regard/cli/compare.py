"""The verb compare."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import Device, app, checked_device, say
from regard.cli.train import TwoValidFiles
from regard.errors import UserError


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
    from regard.compare.plan import ComparisonPlan, run_comparison, split_entrants
    from regard.compare.report import save_standings
    from regard.compare.run import Test
    from regard.train.signals import Stopped

    plan = ComparisonPlan(
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


def _show(text: str, paths: list[Path]) -> None:
    say("\n".join([text, "", *map(str, paths)]))


def _rising(text: str, option: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(numbers) != text.count(",") + 1 or numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise UserError(f"{option} {text}: give rising numbers between commas, for example 5,10,20")
    return tuple(numbers)
