"""The verb attend."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import Device, ModelDir, app, as_text, checked_device, quiet_if_reader_leaves, say

if TYPE_CHECKING:
    from regard.visualize.scene import AttendResult
    from regard.visualize.view import View


@app.command()
def attend(
    folder: ModelDir,
    sentence: Annotated[str, typer.Argument(help="What is looked at; for a captioner, a picture file.")],
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg, .html, .json or .safetensors; without it, the terminal.")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="map, grid (every head), links or, for a captioner, picture.  [default: map]")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="encoder, decoder or cross.  [default: cross, or what there is]")
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="One layer, from 0.  [default: the mean of all]")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head, from 0.  [default: the mean of all]")] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Words in the place of their pieces, no special tokens.")
    ] = False,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Links are drawn from weights above this.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Look while the model is made to say this, instead of what it would say.")
    ] = None,
    rank: Annotated[int, typer.Option(min=1, help="Look at the second, third, … best of the beam.")] = 1,
    device: Device = None,
) -> None:
    """Where a model looked while it worked on a sentence: as a picture, a page, data, or in the terminal."""
    from regard.pipelines.load import load
    from regard.visualize.scene import scene_of, source_tokens
    from regard.visualize.view import View, check_out

    chosen = View(kind, layer, head, words, view, **({} if threshold is None else {"threshold": threshold}))
    check_out(out, chosen)
    sentence, target = as_text(sentence), None if target is None else as_text(target)
    model = load(folder, device=checked_device(device))
    tokens = source_tokens(model, sentence)
    chosen.check(tokens, out)
    scene = scene_of(model, sentence, target, rank)
    _show(scene, chosen, out)
    read = max(map(len, (scene.record.source_tokens, scene.record.target_tokens)))
    if read < len(tokens):
        _warn(f"the model reads {read:,} tokens at once; of the {len(tokens):,} the rest is not shown")


def _show(scene: "AttendResult", view: "View", out: Path | None) -> None:
    from rich.console import Console

    from regard.visualize.terminal import print_heatmap
    from regard.visualize.view import save_view, unseen

    part, kind = view.part_of(scene.record), view.kind_of(scene.record)
    if out is None:
        console = Console()
        with console.capture() as shown:
            print_heatmap(part, kind, console)
        with quiet_if_reader_leaves():
            say(f"{scene.said}\n{shown.get()}".rstrip())
        return
    save_view(scene, view, out)
    say(scene.said)
    say(str(out))
    if lacking := unseen(scene, view, out):
        _warn(f"no font here can draw {lacking}; an .svg or .html shows it with a browser's")


def _warn(line: str) -> None:
    print(f"regard: {line}", file=sys.stderr)
