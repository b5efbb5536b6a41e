"""`regard export`: a model in the format of another program."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.options import ModelDirArgument
from regard.cli.output import print_line, print_warning
from regard.errors import UserError


@app.command()
def export(
    folder: ModelDirArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder or file to write; must not exist.")],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="ctranslate2, argos, hf, onnx or web.")],
    quantization: Annotated[
        str | None, typer.Option(help="Number type of the weights: float32, int8 …  [default: the format's]")
    ] = None,
    shortlist: Annotated[
        int, typer.Option(min=0, metavar="N", help="Write a shortlist of N target tokens per source token.")
    ] = 0,
    shortlist_from: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Source texts that the model translates to make the shortlist.")
    ] = None,
    license_: Annotated[str | None, typer.Option("--license", help="License of the model, e.g. cc-by-4.0.")] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare on the lines of this file.  [default: a sample]")
    ] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not compare the two models.")] = False,
) -> None:
    """Export a model to another format, and compare the outputs."""
    from regard.bundle import NO_LANGUAGES
    from regard.cli.input import file_texts
    from regard.convert.export import export as export_model

    if check and no_check:
        raise UserError("--check and --no-check contradict each other; leave one out")
    if shortlist_from and not shortlist:
        raise UserError("--shortlist-from has no effect without --shortlist N; add it, or leave both out")
    texts = list(file_texts(check, None, NO_LANGUAGES)) if check else not no_check
    shortlist_texts = tuple(file_texts(shortlist_from, None, NO_LANGUAGES)) if shortlist_from else ()
    result = export_model(
        folder,
        out,
        to,
        check=texts,
        quantization=quantization,
        shortlist=shortlist,
        shortlist_texts=shortlist_texts,
        license=license_,
    )
    print_line(f"{result.path}: {result.n_bytes / 2**20:.1f} MiB")
    print_line(result.verdict)
    if result.checked:
        for difference in result.checked.differences[:3]:
            print_warning(f"different: {difference.source} → {difference.original} | {difference.exported}")
