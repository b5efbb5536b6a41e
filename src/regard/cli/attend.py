"""`regard attend`: where a model attends."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.input import decode_argument
from regard.cli.options import DeviceOption, ModelDirArgument, TargetOption, ToOption, WordsOption
from regard.cli.output import print_line, print_warning
from regard.cli.pipeline import load_any

if TYPE_CHECKING:
    from regard.visualize.attend import AttendResult, View


@app.command()
def attend(
    folder: ModelDirArgument,
    sentence: Annotated[
        str, typer.Argument(metavar="SENTENCE", help="The input text; for a captioner, an image file.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg, .html, .json or .safetensors file.  [default: the terminal]")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="map, grid (every head), links or, for a captioner, picture.  [default: map]")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="encoder, decoder or cross.  [default: cross, or what the model has]")
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="One layer, from 0.  [default: the mean of all]")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head, from 0.  [default: the mean of all]")] = None,
    words: WordsOption = False,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Draw links only for weights above this.")
    ] = None,
    target: TargetOption = None,
    to: ToOption = None,
    rank: Annotated[int, typer.Option(min=1, help="Show the translation of this rank in the beam; 1 is the best.")] = 1,
    device: DeviceOption = None,
) -> None:
    """Show where a model attends while it processes a sentence.

    Draws a figure, writes a web page or data, or prints a map in the terminal.
    """
    from regard.visualize.attend import View, attend_to, check_output

    options = View(kind, layer, head, words, view, **({} if threshold is None else {"threshold": threshold}))
    check_output(out, options)
    sentence, target = decode_argument(sentence), None if target is None else decode_argument(target)
    pipeline = load_any(folder, device=device)
    sentence = pipeline.with_tag(sentence, to)
    tokens = pipeline.input_tokens(sentence)
    options.check_size(tokens, out)
    result = attend_to(pipeline, sentence, target, rank)
    _show(result, options, out)
    n_read = max(map(len, (result.record.source_tokens, result.record.target_tokens)))
    if n_read < len(tokens):
        print_warning(f"the model reads at most {n_read:,} tokens; the rest of the {len(tokens):,} is not shown")


def _show(result: "AttendResult", view: "View", out: Path | None) -> None:
    from regard.visualize.attend import missing_characters, save_view
    from regard.visualize.terminal import render_heatmap

    if out is None:
        heatmap = render_heatmap(view.select(result.record), view.choose_kind(result.record))
        print_line(f"{result.output}\n{heatmap}")
        return
    save_view(result, view, out)
    print_line(result.output)
    print_line(str(out))
    if missing := missing_characters(result, view, out):
        print_warning(f"no installed font has {missing}; write an .svg or .html, which use the browser's fonts")
