"""`regard align`: which word is the translation of which."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.options import DeviceOption, MaxSourceOption, ModelDirArgument, ToOption
from regard.cli.output import print_line, print_warning
from regard.cli.pipeline import load_translator

if TYPE_CHECKING:
    from regard.alignment.from_attention import Aligner
    from regard.pipelines.translator import Translator

_N_PRINTED = 5


@app.command()
def align(
    folder: ModelDirArgument,
    src: Annotated[Path, typer.Argument(metavar="SRC", help="Sentences, one per line (plain or .gz).")],
    tgt: Annotated[Path, typer.Argument(metavar="TGT", help="Their translations, one per line.")],
    choose: Annotated[
        Path | None,
        typer.Option(
            metavar="GOLD",
            help="Find the layer, head and threshold that agree best with these alignments (lines such as 0-0 1-2), "
            "and store them in DIR for align, translate and evaluate.",
        ),
    ] = None,
    reverse: Annotated[
        Path | None,
        typer.Option(metavar="DIR2", help="A model of the opposite direction; print only links that both models find."),
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="One layer, from 0.  [default: the model's choice]")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head, from 0.  [default: the model's choice]")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Link every source word with at least this weight.  [default: the model's choice]"),
    ] = None,
    to: ToOption = None,
    max_source: MaxSourceOption = None,
    device: DeviceOption = None,
) -> None:
    """Align the words of sentence pairs by the model's attention.

    Prints one line per pair, for example 0-0 1-2: source and target word of each link, counted from 0. A pair that is
    too long is reported and has no links; the exit code is then 2.
    """
    from regard.alignment.from_attention import Aligner, format_links
    from regard.alignment.sentence_pairs import align_pairs
    from regard.evaluate.test_set import spooled_pairs
    from regard.pipelines.length_limit import TooLongError

    refused: list[TooLongError] = []

    def report(error: TooLongError) -> None:
        refused.append(error)
        print_warning(str(error))

    with spooled_pairs(src, tgt) as (sources, targets):
        translator = load_translator(folder, device=device, max_source=max_source)
        if choose:
            _choose_aligner(folder, translator, sources, targets, choose, to)
            return
        values = {"layer": layer, "head": head, "threshold": threshold}
        options = {name: value for name, value in values.items() if value is not None}
        if options:
            translator.aligner = Aligner.parse({**translator.aligner.model_dump(), **options}, where="align")
        other = load_translator(reverse, device=device, max_source=max_source) if reverse else None
        for links in align_pairs(translator, sources, targets, other, report, to):
            print_line(format_links(links))
    if refused:
        raise typer.Exit(2)


def _choose_aligner(
    folder: Path,
    translator: "Translator",
    sources: Sequence[str],
    targets: Sequence[str],
    gold_file: Path,
    to: str | None,
) -> None:
    """Print the best aligners and store the first in the model directory."""
    from regard.alignment.evaluate import rank_aligners
    from regard.alignment.sentence_pairs import record_pairs
    from regard.bundle import save_alignment
    from regard.data.word_alignments import read_alignments

    gold = read_alignments(gold_file, len(sources))
    ranked = rank_aligners(list(record_pairs(translator, sources, targets, to)), gold)
    for aligner, scores in ranked[:_N_PRINTED]:
        print_line(f"{_describe(aligner):40}{scores.to_text()}")
    save_alignment(folder, ranked[0][0])
    print_line(f"{folder}: aligns by {_describe(ranked[0][0])}")


def _describe(aligner: "Aligner") -> str:
    layer = "all layers" if aligner.layer is None else f"layer {aligner.layer}"
    head = "all heads" if aligner.head is None else f"head {aligner.head}"
    rule = "largest weight" if aligner.threshold is None else f"weights ≥ {aligner.threshold}"
    return f"{layer}, {head}, {rule}"
