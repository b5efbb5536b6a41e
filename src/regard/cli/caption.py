"""`regard caption`: images in, captions out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.app import app
from regard.cli.options import BeamOption, DeviceOption, ModelDirArgument
from regard.cli.output import print_line
from regard.cli.pipeline import load_kind


@app.command()
def caption(
    folder: ModelDirArgument,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE…", help="Image files.")],
    beam: BeamOption = None,
    device: DeviceOption = None,
) -> None:
    """Describe images in words."""
    from regard.pipelines.captioner import Captioner

    captioner = load_kind(folder, Captioner, device)
    options: dict[str, Any] = {"beam": beam} if beam else {}
    captions = captioner.caption(images, **options)
    for path, result in zip(images, captions, strict=True):
        print_line(f"{path}\t{result.text}" if len(images) > 1 else result.text)
