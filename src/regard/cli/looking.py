"""Verbs that look inside: attend, attribute."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import Device, ModelDir, app, as_text, checked_device, quiet_if_reader_leaves, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.look.scene import Scene
    from regard.look.view import View
    from regard.models.record import AttentionRecord


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
    from regard.loading import load
    from regard.look.scene import scene_of, source_tokens
    from regard.look.view import View, check_out

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


def _show(scene: "Scene", view: "View", out: Path | None) -> None:
    from rich.console import Console

    from regard.look.terminal import print_heatmap
    from regard.look.view import save_view, unseen

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


@app.command()
def attribute(
    folder: ModelDir,
    sentence: Annotated[str, typer.Argument(help="What is translated and looked into.")],
    out: Annotated[Path | None, typer.Option(help="A .png, .svg or .json; without it, the terminal.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Ask about this translation, instead of the one that the model would give.")
    ] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Words in the place of their pieces, no special tokens.")
    ] = False,
    device: Device = None,
) -> None:
    """What each source token did for each target token: gradients beside attention."""
    from regard.cli.using import translator_in
    from regard.look.attribution import METHODS, side_by_side
    from regard.look.heatmap import check_fits
    from regard.look.scene import source_tokens

    if out and (out.suffix not in (".png", ".svg", ".json") or not out.parent.is_dir()):
        raise UserError(f"--out {out}: must be a file .png, .svg or .json in a folder that exists")
    sentence, target = as_text(sentence), None if target is None else as_text(target)
    translator = translator_in(folder, device=device)
    check_fits(len(source_tokens(translator, sentence)))
    said = translator.translate([sentence])[0].text if target is None else target
    found = side_by_side(translator, sentence, said)
    if words:
        found = {method: record.words() for method, record in found.items()}
    say(said)
    _attributed(found, METHODS, out)


def _attributed(found: "dict[str, AttentionRecord]", methods: dict[str, str], out: Path | None) -> None:
    import numpy as np

    from regard.files import write_atomically
    from regard.look.grid import draw_panels
    from regard.look.terminal import print_heatmap

    first = next(iter(found.values()))
    if out is None:
        for method, record in found.items():
            say(f"\n{method}: {methods[method]}")
            print_heatmap(record)
        return
    if out.suffix == ".json":
        tree = {method: json.loads(record.to_json()) | {"tells": methods[method]} for method, record in found.items()}
        write_atomically(out, json.dumps(tree, ensure_ascii=False).encode())
    else:
        panels = np.concatenate([record.cross for record in found.values()], axis=1)
        draw_panels(panels, {(0, i): method for i, method in enumerate(found)}, first.tokens("cross"), out)
        for method in found:
            say(f"{method}: {methods[method]}")
    say(str(out))
