"""`regard attribute`: gradient-based attributions beside attention."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.input import decode_argument
from regard.cli.options import DeviceOption, ModelDirArgument, TargetOption, ToOption, WordsOption
from regard.cli.output import check_out_file, print_line
from regard.cli.pipeline import load_translator

if TYPE_CHECKING:
    from regard.models.record import AttentionRecord


@app.command()
def attribute(
    folder: ModelDirArgument,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="The sentence to translate.")],
    out: Annotated[Path | None, typer.Option(help="A .png, .svg or .json file.  [default: the terminal]")] = None,
    target: TargetOption = None,
    to: ToOption = None,
    words: WordsOption = False,
    device: DeviceOption = None,
) -> None:
    """Compare attention with gradient-based attributions.

    Both estimate how much each source token contributed to each target token.
    """
    from regard.visualize.attribution import compare_methods
    from regard.visualize.heatmap import check_token_count

    check_out_file(out, (".png", ".svg", ".json"))
    sentence, target = decode_argument(sentence), None if target is None else decode_argument(target)
    translator = load_translator(folder, device=device)
    sentence = translator.with_tag(sentence, to)
    check_token_count(len(translator.input_tokens(sentence)))
    translation = translator.translate([sentence], as_written=True)[0].text if target is None else target
    records = compare_methods(translator, sentence, translation)
    if words:
        records = {method: record.merge_words() for method, record in records.items()}
    print_line(translation)
    if out is None:
        _print(records)
    else:
        _write(records, out)
        print_line(str(out))


def _print(records: "dict[str, AttentionRecord]") -> None:
    from regard.visualize.attribution import METHODS
    from regard.visualize.terminal import render_heatmap

    for method, record in records.items():
        print_line(f"\n{method}: {METHODS[method]}\n{render_heatmap(record)}")


def _write(records: "dict[str, AttentionRecord]", out: Path) -> None:
    import numpy as np

    from regard.files import write_atomically
    from regard.visualize.attribution import METHODS
    from regard.visualize.grid import draw_panels

    if out.suffix == ".json":
        tree = {method: json.loads(record.to_json()) | {"tells": METHODS[method]} for method, record in records.items()}
        write_atomically(out, json.dumps(tree, ensure_ascii=False).encode())
        return
    panels = np.concatenate([record.cross for record in records.values()], axis=1)
    tokens = next(iter(records.values())).axis_tokens("cross")
    draw_panels(panels, {(0, i): method for i, method in enumerate(records)}, tokens, out)
    for method in records:
        print_line(f"{method}: {METHODS[method]}")
