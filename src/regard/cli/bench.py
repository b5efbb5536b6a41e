"""The verb bench."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import Device, app, checked_device
from regard.cli.compare import _rising, _show
from regard.errors import UserError

bench_app = typer.Typer(help="Measure the parts that models are made of.", rich_markup_mode=None)


app.add_typer(bench_app, name="bench")


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
    from regard.compare.scaling import measure_scaling, save_scaling

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be made a folder ({error.strerror})") from None
    curves = measure_scaling(_rising(lengths, "--lengths"), max_seconds, checked_device(device))
    _show(*save_scaling(curves, out))
