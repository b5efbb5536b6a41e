"""`regard compare`: several recipes under the same budget."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.input import parse_increasing
from regard.cli.options import DeviceOption, TokenizeOption, ValidOption, ValidPairCommand
from regard.cli.output import print_report, print_warning
from regard.cli.pipeline import check_device
from regard.errors import UserError

FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES",
        help="Training pairs: two line-aligned files, or one file of pairs (.tsv, .csv, .jsonl, .tmx …).",
    ),
]
TestOption = Annotated[tuple[Path, Path], typer.Option(metavar="SRC TGT", help="Test pairs: two line-aligned files.")]
RecipesOption = Annotated[
    list[str],
    typer.Option(
        metavar="A,B,…", help="Named recipes or YAML files; tiny+model.positions=rotary is a variant of tiny."
    ),
]
OutOption = Annotated[Path, typer.Option(help="The folder to write: one model directory per recipe, and the tables.")]
GoldOption = Annotated[
    Path | None,
    typer.Option(metavar="GOLD", help="Gold word alignments of the test pairs (lines such as 0-0 1-2)."),
]
UpdatesOption = Annotated[int | None, typer.Option(min=1, help="Train each model for this many updates.")]
SecondsOption = Annotated[float | None, typer.Option(min=0.1, help="Or train each model for this many seconds.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override an option of all recipes, or of one: tiny:KEY=VALUE."),
]
LengthsOption = Annotated[
    str, typer.Option(metavar="N,N,…", help="The longest source, in words, of each length bucket but the last.")
]
TestBeamOption = Annotated[int, typer.Option(min=1, help="Beam width on the test set; 1 is greedy.")]
RepeatOption = Annotated[
    bool, typer.Option("--repeat", help="Measure finished models again; they are not trained again.")
]


@app.command(cls=ValidPairCommand)
def compare(
    files: FilesArgument,
    test: TestOption,
    recipes: RecipesOption,
    out: OutOption,
    valid: ValidOption = None,
    alignments: GoldOption = None,
    updates: UpdatesOption = None,
    seconds: SecondsOption = None,
    set_: SetOption = None,
    lengths: LengthsOption = "5,10,15,20",
    beam: TestBeamOption = 1,
    tokenize: TokenizeOption = "13a",
    repeat: RepeatOption = False,
    device: DeviceOption = None,
) -> None:
    """Train several recipes under one budget and compare them.

    All of them see the same data and share a tokenizer. Writes tables and a plot.
    """
    from regard.compare.measure import TestPlan
    from regard.compare.plan import ComparisonPlan, split_recipes
    from regard.compare.report import save_report
    from regard.compare.run import run_comparison
    from regard.train.signals import Stopped

    plan = ComparisonPlan(
        recipes=tuple(label for text in recipes for label in split_recipes(text)),
        train=tuple(files),
        valid=tuple(valid) if valid else None,
        test=TestPlan(test, alignments, parse_increasing(lengths, "--lengths"), beam, tokenize),
        out=out,
        updates=updates,
        seconds=seconds,
        settings=tuple(set_ or ()),
        device=check_device(device),
        repeat=repeat,
    )
    try:
        rows = run_comparison(plan)
    except Stopped as stopped:
        print_warning("stopped and saved; run the same command again to continue")
        raise typer.Exit(128 + stopped.signal_number) from None
    print_report(*save_report(rows, out))
    if all("error" in row for row in rows):
        raise UserError(f"none of the models could be trained: {rows[0]['error']}")
