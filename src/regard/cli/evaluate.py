"""`regard evaluate`: score a model on a test set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app
from regard.cli.options import (
    BeamOption,
    DeviceOption,
    JsonOption,
    MaxSourceOption,
    ModelDirArgument,
    TokenizeOption,
)
from regard.cli.output import print_line
from regard.cli.pipeline import check_device, load_translator
from regard.errors import UserError
from regard.paths import check_output_file

if TYPE_CHECKING:
    from regard.alignment.evaluate import AlignmentScores
    from regard.evaluate.translation import TestSet
    from regard.pipelines.translator import Translator

TestFilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="SRC REF",
        help="Translators: source sentences and their references, one per line (plain or .gz). Language models: one "
        "text file. Classifiers: a TSV file of text and label. Captioners: a TSV file of image file and caption.",
    ),
]
BaselineOption = Annotated[
    Path | None, typer.Option(metavar="DIR2", help="A second model to compare with, by a paired bootstrap test.")
]
LowercaseOption = Annotated[bool, typer.Option("--lowercase", help="Case-insensitive BLEU.")]
OutputOption = Annotated[Path | None, typer.Option(help="Write the translations to this file.")]
AlignmentsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="GOLD", help="Gold word alignments of SRC and REF (lines such as 0-0 1-2): adds AER, precision, recall."
    ),
]
StrideOption = Annotated[
    int | None,
    typer.Option(min=1, help="Language models: tokens between the starts of windows.  [default: the context length]"),
]
RegionsOption = Annotated[
    Path | None, typer.Option(help="Captioners: gold regions, in the format that `regard data shapes` writes.")
]


@app.command()
def evaluate(
    folder: ModelDirArgument,
    files: TestFilesArgument,
    baseline: BaselineOption = None,
    tokenize: TokenizeOption = "13a",
    lowercase: LowercaseOption = False,
    beam: BeamOption = None,
    max_source: MaxSourceOption = None,
    output: OutputOption = None,
    alignments: AlignmentsOption = None,
    stride: StrideOption = None,
    regions: RegionsOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = None,
) -> None:
    """Score a model on a test set.

    Translators: BLEU, chrF and TER by sacreBLEU. Language models: perplexity. Classifiers: accuracy and F1. Captioners:
    exact matches and BLEU.
    """
    from regard.evaluate.metrics import ScoreOptions
    from regard.evaluate.run import evaluate_model
    from regard.evaluate.translation import evaluate as run_evaluation
    from regard.evaluate.translation import read_test_set
    from regard.files import write_atomically

    if output:
        check_output_file(output, "--output")
    for_pairs = {"--baseline": baseline, "--beam": beam, "--output": output, "--lowercase": lowercase}
    for_pairs |= {"--alignments": alignments, "--max-source": max_source}
    _reject_unused(len(files), for_pairs, {"--stride": stride, "--regions": regions})
    if len(files) == 1:
        result = evaluate_model(folder, files[0], check_device(device), stride, regions)
        print_line(json.dumps(result.to_json(), indent=2) if as_json else result.to_text())
        return
    if len(files) != 2:
        raise UserError(f"got {len(files)} test files; give SRC and REF, or one file")
    test_set, translator = read_test_set(*files), load_translator(folder, device=device, max_source=max_source)
    other = load_translator(baseline, device=device, max_source=max_source) if baseline else None
    alignment_scores = _score_alignment(translator, test_set, alignments) if alignments else None
    options = ScoreOptions(tokenize, lowercase)
    evaluation = run_evaluation(translator, test_set, options, other, {"beam": beam} if beam else {})
    if output:
        write_atomically(output, "".join(line + "\n" for line in evaluation.hypotheses).encode())
    if as_json:
        tree = evaluation.to_json() | ({"alignment": alignment_scores.to_json()} if alignment_scores else {})
        print_line(json.dumps(tree, ensure_ascii=False, indent=2))
    else:
        print_line(
            "\n".join(
                [evaluation.to_text(), *(["", f"alignment   {alignment_scores.to_text()}"] if alignment_scores else [])]
            )
        )


def _reject_unused(n_files: int, for_pairs: dict[str, Any], for_one_file: dict[str, Any]) -> None:
    """Reject options that have no effect on this number of test files."""
    unused = next((name for name, value in (for_pairs if n_files == 1 else for_one_file).items() if value), None)
    if unused:
        files = "one test file" if n_files == 1 else "SRC and REF"
        raise UserError(f"{unused} has no effect with {files}; leave it out")


def _score_alignment(translator: "Translator", test_set: "TestSet", path: Path) -> "AlignmentScores":
    from regard.alignment.evaluate import AlignmentScores
    from regard.alignment.sentence_pairs import align_pairs
    from regard.data.word_alignments import read_alignments

    gold = read_alignments(path, len(test_set.sources))
    return AlignmentScores.of(list(align_pairs(translator, test_set.sources, test_set.references)), gold)
