"""The verb caption."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import (
    Device,
    ModelDir,
    app,
    quiet_if_reader_leaves,
    say,
)
from regard.cli.pipeline import loaded

if TYPE_CHECKING:
    pass


@app.command()
def caption(
    folder: ModelDir,
    pictures: Annotated[list[Path], typer.Argument(metavar="PICTURE…", help="Image files.")],
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width.  [default: the model's]")] = None,
    device: Device = None,
) -> None:
    """Say what is in pictures."""
    from regard.pipelines.captioner import Captioner

    captioner = loaded(folder, Captioner, "captioner (--recipe caption)", device)
    with quiet_if_reader_leaves():
        for path, found in zip(pictures, captioner.caption(pictures, **({"beam": beam} if beam else {})), strict=True):
            say(f"{path}\t{found.text}" if len(pictures) > 1 else found.text)
