"""The verb demo."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Where the run is written.  [default: runs/demo-DIRECTION]")] = None,
    direction: Annotated[str, typer.Option(help="en-fr or fr-en.")] = "en-fr",
) -> None:
    """The first five minutes: train on the built-in corpus, translate, draw an attention map."""
    from regard.demo import run_demo

    run_demo(out, direction)
