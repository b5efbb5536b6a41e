"""`regard verify`: check the files of a model, run or prepared corpus against their checksums."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.output import print_line
from regard.errors import UserError


@app.command()
def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory written by `regard train` or `regard data prepare`.")
    ],
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Accept the model's files as they are, as after an edit of config.json."),
    ] = False,
) -> None:
    """Check the files of a model or run, or of a prepared corpus."""
    from regard.train import verify as verification

    if accept:
        verification.accept(folder)
    result = verification.verify(folder)
    for problem in result.problems:
        print_line(problem)
    if result.problems:
        raise UserError(f"{folder}: {len(result.problems)} problems; see above")
    print_line(f"{folder}: every file is as it was written: {', '.join(result.checked)}")
