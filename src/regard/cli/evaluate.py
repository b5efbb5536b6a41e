"""`regard evaluate`: score a model on a test set."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app
from regard.cli.options import (
    BeamOption,
    DeviceOption,
    EngineOption,
    JsonOption,
    MaxSourceOption,
    ModelDirArgument,
    TokenizeOption,
)
from regard.cli.output import ProgressLine, print_line, print_warning
from regard.cli.pipeline import limit_sources, load_any, load_translator
from regard.errors import UserError
from regard.paths import check_output_file

if TYPE_CHECKING:
    from regard.alignment.evaluate import AlignmentScores
    from regard.evaluate.external_metric import ExternalMetric
    from regard.evaluate.metrics import ScoreOptions
    from regard.evaluate.paired_test import PairedTestName
    from regard.evaluate.test_set import TestSet
    from regard.pipelines.translator import Translator

TestFilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="SRC REF",
        help="Translators: source sentences and their references, one per line (plain or compressed), or one file of "
        "pairs (TSV, CSV, JSONL, TMX, XLIFF, zip, Parquet). Language models: one text file. Classifiers: a TSV file of "
        "text and label. Captioners: a TSV file of image file and caption.",
    ),
]
BaselineOption = Annotated[
    Path | None, typer.Option(metavar="DIR2", help="A second model to compare with, by a paired significance test.")
]
PairedOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEST", help="With --baseline: bootstrap, or randomisation (approximate).  [default: bootstrap]"
    ),
]
TagsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="One tag per sentence (its domain, its source …): adds the scores of each tag."),
]
MetricCommandOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]CMD",
        help="Another metric: a program that reads lines of source, hypothesis and reference, separated by tabs, and "
        "prints one score per line; repeatable.",
    ),
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
    paired: PairedOption = None,
    tags: TagsOption = None,
    metric_command: MetricCommandOption = None,
    tokenize: TokenizeOption = "13a",
    lowercase: LowercaseOption = False,
    beam: BeamOption = None,
    max_source: MaxSourceOption = None,
    output: OutputOption = None,
    alignments: AlignmentsOption = None,
    stride: StrideOption = None,
    regions: RegionsOption = None,
    as_json: JsonOption = False,
    engine: EngineOption = "torch",
    device: DeviceOption = None,
) -> None:
    """Score a model on a test set.

    Translators: BLEU, chrF and TER by sacreBLEU with 95 % confidence intervals. Language models: perplexity.
    Classifiers: accuracy and F1. Captioners: exact matches and BLEU.
    """
    from regard.evaluate.external_metric import parse_metrics
    from regard.evaluate.metrics import ScoreOptions
    from regard.evaluate.paired_test import check_test_name
    from regard.evaluate.run import evaluate_on_file
    from regard.pipelines.translator import Translator

    for_translators = {"--baseline": baseline, "--tags": tags, "--metric-command": metric_command, "--beam": beam}
    for_translators |= {"--lowercase": lowercase, "--output": output, "--alignments": alignments}
    for_translators |= {"--max-source": max_source}
    if paired and baseline is None:
        raise UserError("--paired has no effect without --baseline; add --baseline DIR2")
    if output:
        check_output_file(output, "--output")
    pipeline = load_any(folder, device, engine)
    if not isinstance(pipeline, Translator):
        _reject_unused(for_translators, pipeline.noun)
        if len(files) != 1:
            raise UserError(f"got {len(files)} test files; a {pipeline.noun} is evaluated on one")
        result = evaluate_on_file(pipeline, files[0], stride, regions)
        print_line(json.dumps(result.to_json(), indent=2) if as_json else result.to_text())
        return
    _reject_unused({"--stride": stride, "--regions": regions}, pipeline.noun)
    run = _TranslatorEvaluation(
        limit_sources(pipeline, max_source),
        load_translator(baseline, device=device, max_source=max_source, engine=engine) if baseline else None,
        {"beam": beam} if beam else {},
        ScoreOptions(tokenize, lowercase),
        check_test_name(paired or "bootstrap"),
        parse_metrics(metric_command or ()),
    )
    print_line(run(files, tags, alignments, output, as_json))


@dataclass(frozen=True)
class _TranslatorEvaluation:
    """An evaluation of a translator, with the options that say how it is scored."""

    translator: "Translator"
    baseline: "Translator | None"
    decode: dict[str, Any]
    options: "ScoreOptions"
    paired: "PairedTestName"
    metrics: "list[ExternalMetric]"

    def __call__(
        self,
        files: Sequence[Path],
        tags: Path | None,
        alignments: Path | None,
        output: Path | None,
        as_json: bool,
    ) -> str:
        """Evaluate on test files, write the translations to `output`, and return the text to print."""
        from regard.bundle import NO_LANGUAGES
        from regard.evaluate.test_set import read_tags, read_test_files
        from regard.evaluate.translation import evaluate as run_evaluation
        from regard.files import write_atomically

        languages = None if self.translator.languages == NO_LANGUAGES else self.translator.languages
        test_set, problems = read_test_files(files, languages)
        for problem in (*problems, *self.options.problems_with(test_set.references)):
            print_warning(problem)
        alignment_scores = _score_alignment(self.translator, test_set, alignments) if alignments else None
        with ProgressLine() as progress:
            evaluation = run_evaluation(
                self.translator,
                test_set,
                self.options,
                baseline=self.baseline,
                paired=self.paired,
                tags=read_tags(tags, len(test_set.sources)) if tags else (),
                decode=self.decode,
                progress=progress,
            )
        if output:
            write_atomically(output, "".join(line + "\n" for line in evaluation.hypotheses).encode())
        evaluation = evaluation.with_metrics(self.metrics, test_set)  # last, so that a failure does not cost --output
        if as_json:
            tree = evaluation.to_json() | ({"alignment": alignment_scores.to_json()} if alignment_scores else {})
            return json.dumps(tree, ensure_ascii=False, indent=2)
        more = ["", f"alignment   {alignment_scores.to_text()}"] if alignment_scores else []
        return "\n".join([evaluation.to_text(), *more])


def _reject_unused(options: dict[str, Any], noun: str) -> None:
    """Reject options that have no effect on a model of this kind."""
    if unused := next((name for name, value in options.items() if value), None):
        raise UserError(f"{unused} has no effect on a {noun}; leave it out")


def _score_alignment(translator: "Translator", test_set: "TestSet", path: Path) -> "AlignmentScores":
    from regard.alignment.evaluate import AlignmentScores
    from regard.alignment.sentence_pairs import align_pairs
    from regard.data.word_alignments import read_alignments

    gold = read_alignments(path, len(test_set.sources))
    return AlignmentScores.of(list(align_pairs(translator, test_set.sources, test_set.references)), gold)
