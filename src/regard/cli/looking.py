"""Verbs that look inside: attend."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import Device, ModelDir, app, say
from regard.cli.using import translator_in
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.models.record import AttentionRecord

_FORMATS = (".png", ".svg", ".json", ".safetensors")


@app.command()
def attend(
    folder: ModelDir,
    sentence: Annotated[str, typer.Argument(help="What is translated and looked at.")],
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg, .json or .safetensors; without it, the terminal.")
    ] = None,
    kind: Annotated[str, typer.Option(help="encoder, decoder or cross.")] = "cross",
    layer: Annotated[int | None, typer.Option(min=0, help="One layer, from 0.  [default: the mean of all]")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head, from 0.  [default: the mean of all]")] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Words in the place of their pieces, no special tokens.")
    ] = False,
    device: Device = None,
) -> None:
    """Where a translator looked while it translated a sentence: as a picture, as data, or in the terminal."""
    if out and (out.suffix not in _FORMATS or not out.parent.is_dir()):
        raise UserError(f"--out {out}: must be a file {', '.join(_FORMATS)} in a folder that exists")
    [translation] = translator_in(folder, device=device).translate([sentence], attention=True)
    record = translation.attention
    if record is None:
        raise UserError("there is nothing to look at in an empty sentence")
    record = record.only(layer, head)
    record = record.words() if words else record
    record.weights(kind)  # an unknown kind is refused before anything is printed
    say(translation.text)
    _show(record, kind, out)


def _show(record: "AttentionRecord", kind: str, out: Path | None) -> None:
    from regard.files import write_atomically
    from regard.look.figure import can_draw
    from regard.look.heatmap import draw_heatmap, print_heatmap

    if out is None:
        print_heatmap(record, kind)
    elif out.suffix == ".json":
        write_atomically(out, record.to_json().encode())
    elif out.suffix == ".safetensors":
        write_atomically(out, record.to_safetensors())
    elif not can_draw():
        raise UserError("drawing needs a package: pip install 'regard[plot]'")
    else:
        draw_heatmap(record, out, kind)
    if out:
        say(str(out))
