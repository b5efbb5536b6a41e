"""`regard average`: the mean of several checkpoints."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.output import print_line
from regard.errors import UserError


@app.command()
def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A directory written by `regard train`.")],
    last: Annotated[int | None, typer.Option(min=1, help="Average the last K checkpoints.", metavar="K")] = None,
    best: Annotated[
        int | None, typer.Option(min=1, help="Average the K checkpoints that scored best in validation.", metavar="K")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The model directory to write.  [default: RUN itself]")] = None,
) -> None:
    """Replace a run's weights by the mean of its checkpoints."""
    from regard.train.average import average_run

    if (last is None) == (best is None):
        raise UserError("give either --last K or --best K")
    steps = average_run(run, "last" if last else "best", last or best or 1, out or run)
    print_line(f"{out or run}: mean of the checkpoints at steps {', '.join(str(step) for step in steps)}")
