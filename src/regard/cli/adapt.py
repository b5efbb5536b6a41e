"""`regard adapt`: merge an adapter into the model that it was trained for."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.output import print_line


@app.command()
def adapt(
    parent: Annotated[Path, typer.Argument(metavar="PARENT", help="The model directory that training started from.")],
    adapter: Annotated[
        Path,
        typer.Argument(metavar="ADAPTER", help="The folder `adapter` of a run with train.lora, or the run itself."),
    ],
    out: Annotated[Path, typer.Option(help="The model directory to write.")],
) -> None:
    """Merge a LoRA adapter into its parent model."""
    from regard.train.adapter import merge_adapter

    merge_adapter(parent, adapter, out)
    print_line(f"{out}: {parent} with the adapter of {adapter}")
