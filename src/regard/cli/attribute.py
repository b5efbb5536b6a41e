"""The verb attribute."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import Device, ModelDir, app, as_text, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.models.record import AttentionRecord


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
    from regard.cli.pipeline import translator_in
    from regard.visualize.attribution import METHODS, side_by_side
    from regard.visualize.heatmap import check_fits
    from regard.visualize.scene import source_tokens

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
    from regard.visualize.grid import draw_panels
    from regard.visualize.terminal import print_heatmap

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
