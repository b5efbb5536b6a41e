"""`regard demo`: train, translate and draw in two minutes."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.output import print_line


@app.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to write.  [default: runs/demo-DIRECTION, with --recipe demo-RECIPE-DIRECTION]"),
    ] = None,
    direction: Annotated[str, typer.Option(help="en-fr or fr-en.")] = "en-fr",
    recipe: Annotated[
        str | None,
        typer.Option(help="A recipe for translation: rnn, rnn-dot, linear …  [default: tiny, a small Transformer]"),
    ] = None,
) -> None:
    """Train a small translator on built-in data, and use it.

    Takes about two minutes on two CPU cores; longer for some recipes.
    """
    from regard.demo import RECIPE, run_demo

    run_demo(out, direction, recipe or RECIPE, print_line)
