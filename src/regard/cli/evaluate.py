"""evaluate: how good a model is."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import AsJson, Device, ModelDir, app, checked_device, say
from regard.cli.pipeline import translator_in
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.evaluate.translation import TestSet
    from regard.pipelines.translator import Translator

TestFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="SRC REF",
        help="Source sentences and their references, one a line (plain or .gz); for a language model a text, for "
        "a classifier a TSV of text and label, for a captioner a TSV of picture and caption.",
    ),
]
Baseline = Annotated[Path | None, typer.Option(metavar="DIR2", help="A second model; adds a paired bootstrap test.")]
Tokenize = Annotated[str, typer.Option(help="sacreBLEU's tokenizer; none for tokenised text.")]
Output = Annotated[Path | None, typer.Option(help="Write the translations to this file.")]
Stride = Annotated[
    int | None, typer.Option(min=1, help="Language models: tokens between windows.  [default: the context]")
]
RegionFile = Annotated[Path | None, typer.Option(help="Captions: gold regions, as `regard data shapes` writes them.")]
Alignments = Annotated[
    Path | None,
    typer.Option(metavar="GOLD", help="Word alignments of SRC and REF, lines of 0-0 1-2; adds AER, precision, recall."),
]


@app.command()
def evaluate(
    folder: ModelDir,
    files: TestFiles,
    baseline: Baseline = None,
    tokenize: Tokenize = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Case-insensitive BLEU.")] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width.  [default: the model's]")] = None,
    output: Output = None,
    alignments: Alignments = None,
    stride: Stride = None,
    regions: RegionFile = None,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Score a model on a test set: BLEU, chrF and TER by sacreBLEU, or what its task is judged by."""
    from regard.evaluate.judge import judge
    from regard.evaluate.metrics import ScoreOptions
    from regard.evaluate.translation import evaluate as run_evaluation
    from regard.evaluate.translation import read_test_set
    from regard.files import write_atomically

    if output and not output.parent.is_dir():
        raise UserError(f"--output {output}: there is no folder {output.parent}")
    two = {"--baseline": baseline, "--beam": beam, "--output": output, "--lowercase": lowercase}
    _refuse_idle(len(files), {**two, "--alignments": alignments}, {"--stride": stride, "--regions": regions})
    if len(files) == 1:
        judgement = judge(folder, files[0], checked_device(device), stride, regions)
        say(json.dumps(judgement.to_json(), indent=2) if as_json else judgement.to_text())
        return
    if len(files) != 2:
        raise UserError(f"expected SRC and REF, or one file, got {len(files)}")
    test_set, translator = read_test_set(*files), translator_in(folder, device=device)
    other = translator_in(baseline, device=device) if baseline else None
    options = ScoreOptions(tokenize, lowercase)
    errors = _alignment_errors(translator, test_set, alignments) if alignments else None
    evaluation = run_evaluation(translator, test_set, options, other, {"beam": beam} if beam else {})
    if output:
        write_atomically(output, "".join(line + "\n" for line in evaluation.hypotheses).encode())
    if as_json:
        tree = evaluation.to_json() | ({"alignment": errors.to_json()} if errors else {})
        say(json.dumps(tree, ensure_ascii=False, indent=2))
    else:
        say("\n".join([evaluation.to_text(), *(["", f"alignment   {errors.to_text()}"] if errors else [])]))


def _refuse_idle(n_files: int, of_two: dict[str, Any], of_one: dict[str, Any]) -> None:
    idle = next((name for name, value in (of_two if n_files == 1 else of_one).items() if value), None)
    if idle:
        raise UserError(f"{idle} does not act on {'one file' if n_files == 1 else 'SRC and REF'}; leave it out")


def _alignment_errors(translator: "Translator", test_set: "TestSet", path: Path) -> Any:
    from regard.alignment.evaluate import AlignmentErrors, align_pairs
    from regard.data.word_alignments import read_alignments

    gold = read_alignments(path, len(test_set.sources))
    return AlignmentErrors.of(list(align_pairs(translator, test_set.sources, test_set.references)), gold)
