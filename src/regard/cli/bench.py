"""`regard bench`: measurements of the building blocks of models."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.input import parse_increasing
from regard.cli.options import DeviceOption
from regard.cli.output import make_out_folder, print_report
from regard.cli.pipeline import check_device

bench_app = typer.Typer(help="Measure the building blocks of models.", rich_markup_mode=None)
app.add_typer(bench_app, name="bench")


@bench_app.callback()
def bench() -> None:
    """Measure the building blocks of models."""


@bench_app.command()
def scaling(
    out: Annotated[Path, typer.Option(help="The folder for scaling.json, .png and .svg.")],
    lengths: Annotated[
        str, typer.Option(metavar="N,N,…", help="The sequence lengths to measure.")
    ] = "64,128,256,512,1024,2048,4096,8192",
    max_seconds: Annotated[
        float, typer.Option(min=1, help="Approximate total time; long sequences are left out.")
    ] = 60,
    device: DeviceOption = None,
) -> None:
    """Measure time and memory of one layer by sequence length.

    The layers: recurrent, attention (plain and fused), linear attention and state space.
    """
    from regard.compare.scaling import measure_scaling, save_scaling

    make_out_folder(out)
    curves = measure_scaling(parse_increasing(lengths, "--lengths"), max_seconds, check_device(device))
    print_report(*save_scaling(curves, out))
