"""align: which word comes from which."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import Device, ModelDir, app, quiet_if_reader_leaves, say
from regard.cli.pipeline import translator_in

if TYPE_CHECKING:
    from regard.alignment.aligner import Aligner
    from regard.evaluate.translation import TestSet
    from regard.pipelines.translator import Translator

_SHOWN = 5


@app.command()
def align(
    folder: ModelDir,
    src: Annotated[Path, typer.Argument(metavar="SRC", help="Sentences, one a line (plain or .gz).")],
    tgt: Annotated[Path, typer.Argument(metavar="TGT", help="Their translations, line by line.")],
    choose: Annotated[
        Path | None,
        typer.Option(
            metavar="GOLD",
            help="Find the layer, head and threshold that come nearest to these alignments "
            "(lines of 0-0 1-2), and keep them in DIR for align, translate and evaluate.",
        ),
    ] = None,
    reverse: Annotated[
        Path | None, typer.Option(metavar="DIR2", help="A model of the other direction: only what both find.")
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="One layer, from 0.  [default: the model's choice]")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head, from 0.  [default: the model's choice]")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="All words with so much of the attention.  [default: the one with most]")
    ] = None,
    device: Device = None,
) -> None:
    """Which word comes from which, read from the attention to given pairs: a line of 0-0 1-2 a pair."""
    from regard.alignment.aligner import Aligner, moses
    from regard.alignment.evaluate import align_pairs
    from regard.evaluate.translation import read_test_set

    pairs = read_test_set(src, tgt)
    translator = translator_in(folder, device=device)
    if choose:
        _choose(folder, translator, pairs, choose)
        return
    given = {"layer": layer, "head": head, "threshold": threshold}
    options = {name: value for name, value in given.items() if value is not None}
    if options:
        translator.aligner = Aligner.parse({**translator.aligner.model_dump(), **options}, where="align")
    other = translator_in(reverse, device=device) if reverse else None
    with quiet_if_reader_leaves():
        for links in align_pairs(translator, pairs.sources, pairs.references, other):
            say(moses(links))


def _choose(folder: Path, translator: "Translator", pairs: "TestSet", gold_file: Path) -> None:
    from regard.alignment.evaluate import choose, watch_pairs
    from regard.bundle import save_alignment
    from regard.data.word_alignments import read_alignments

    gold = read_alignments(gold_file, len(pairs.sources))
    ranked = choose(list(watch_pairs(translator, pairs.sources, pairs.references)), gold)
    for aligner, errors in ranked[:_SHOWN]:
        say(f"{_named(aligner):40}{errors.to_text()}")
    save_alignment(folder, ranked[0][0])
    say(f"{folder}: aligns by {_named(ranked[0][0])}")


def _named(aligner: "Aligner") -> str:
    layer = "all layers" if aligner.layer is None else f"layer {aligner.layer}"
    head = "all heads" if aligner.head is None else f"head {aligner.head}"
    how = "most attention" if aligner.threshold is None else f"from {aligner.threshold} on"
    return f"{layer}, {head}, {how}"
