"""`regard evaluate`: score a model on a test set."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app
from regard.cli.decoding_options import DecodingOptions
from regard.cli.option_groups import with_option_groups
from regard.cli.options import (
    BeamOption,
    DeviceOption,
    EngineOption,
    JsonOption,
    MaxSourceOption,
    ModelDirArgument,
    TokenizeOption,
    ToOption,
    without_none,
)
from regard.cli.output import ProgressLine, print_line, print_warning
from regard.cli.pipeline import load_any, load_translator
from regard.errors import UserError
from regard.paths import check_output_file

if TYPE_CHECKING:
    from regard.alignment.evaluate import AlignmentScores
    from regard.evaluate.external_metric import ExternalMetric
    from regard.evaluate.metrics import ScoreOptions
    from regard.evaluate.paired_test import PairedTestName
    from regard.evaluate.test_set import TestSet
    from regard.evaluate.translation import Evaluation
    from regard.pipelines.captioner import Captioner
    from regard.pipelines.classifier import Classifier
    from regard.pipelines.generator import Generator
    from regard.pipelines.translator import Translator

TestFilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[DIR…] SRC REF",
        help="The test set, after more model directories if translators form an ensemble. "
        "Translators: source sentences and their references, one per line (plain or compressed), or one file of "
        "pairs (TSV, CSV, JSONL, TMX, XLIFF, zip, Parquet). Language models: one text file. Classifiers: a TSV file of "
        "text and label. Captioners: a TSV file of image file and caption.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Instead of SRC REF: the YAML file of `regard train --data`, each of whose corpora may have test files.",
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
@with_option_groups
def evaluate(
    folder: ModelDirArgument,
    files: TestFilesArgument = None,
    data: DataOption = None,
    to: ToOption = None,
    baseline: BaselineOption = None,
    paired: PairedOption = None,
    tags: TagsOption = None,
    metric_command: MetricCommandOption = None,
    tokenize: TokenizeOption = "13a",
    lowercase: LowercaseOption = False,
    beam: BeamOption = None,
    decoding: DecodingOptions = DecodingOptions(),
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
    from regard.pipelines.translator import Translator

    more, test_files = _split_arguments(files or (), data)
    options = without_none(beam=beam) | decoding.options(beam)
    one_set = {"--to": to, "--baseline": baseline, "--tags": tags, "--output": output, "--alignments": alignments}
    for_translators: dict[str, Any] = {**one_set, "--lowercase": lowercase, "--max-source": max_source}
    for_translators |= {"--data": data, "--metric-command": metric_command}
    for_translators |= {f"--{name}": value for name, value in options.items()}
    if paired and baseline is None:
        raise UserError("--paired has no effect without --baseline; add --baseline DIR2")
    if output:
        check_output_file(output, "--output")
    pipeline = load_any(folder, *more, device=device, engine=engine, **decoding.folders)
    if not isinstance(pipeline, Translator):
        _reject_unused(for_translators, f"a {pipeline.noun}")
        _evaluate_on_file(pipeline, test_files, stride, regions, as_json)
        return
    _reject_unused({"--stride": stride, "--regions": regions}, "a translator")
    run = _TranslatorEvaluation(
        pipeline.limit_sources(max_source),
        load_translator(baseline, device=device, max_source=max_source, engine=engine) if baseline else None,
        options,
        ScoreOptions(tokenize, lowercase),
        check_test_name(paired or "bootstrap"),
        parse_metrics(metric_command or ()),
    )
    if data:
        _reject_unused(one_set, "several test sets (--data)")
    result = run.on_corpora(data, as_json) if data else run(test_files, to, tags, alignments, output, as_json)
    print_line(result)


def _split_arguments(arguments: Sequence[Path], data: Path | None) -> tuple[list[Path], list[Path]]:
    """Return more model directories, and the test files after them; refuse to have none, or files besides --data."""
    models = list(takewhile(_is_model, arguments))
    files = list(arguments[len(models) :])
    if (data is None) == (not files):
        raise UserError("name the test files, or with --data a YAML file of corpora that have 'test' files")
    return models, files


def _evaluate_on_file(
    pipeline: "Generator | Classifier | Captioner",
    files: Sequence[Path],
    stride: int | None,
    regions: Path | None,
    as_json: bool,
) -> None:
    from regard.evaluate.run import evaluate_on_file

    if len(files) != 1:
        raise UserError(f"got {len(files)} test files; a {pipeline.noun} is evaluated on one")
    result = evaluate_on_file(pipeline, files[0], stride, regions)
    print_line(json.dumps(result.to_json(), indent=2) if as_json else result.to_text())


@dataclass(frozen=True)
class _TranslatorEvaluation:
    """An evaluation of a translator, with the options that say how it is scored."""

    translator: "Translator"
    baseline: "Translator | None"
    decode: dict[str, Any]
    options: "ScoreOptions"
    paired: "PairedTestName"
    metrics: "list[ExternalMetric]"

    def on_corpora(self, path: Path, as_json: bool) -> str:
        """Evaluate on the test files of each corpus in a YAML file, and return the text to print."""
        from regard.data.mixture_file import read_mixture
        from regard.evaluate.several_sets import SeveralEvaluations

        corpora = [corpus for corpus in read_mixture(path).corpora if corpus.test]
        if not corpora:
            raise UserError(f"{path}: no corpus has 'test' files; add them, such as test: [test.en, test.fr]")
        languages = [corpus.languages for corpus in corpora]
        evaluations = {}
        for corpus in corpora:
            is_only = corpus.languages is not None and languages.count(corpus.languages) == 1
            name = "-".join(corpus.languages or ()) if is_only else corpus.name
            to = corpus.languages[1] if corpus.languages else None
            test_set = self._read(corpus.test, to, name=f"{name}: ")
            evaluations[name] = self._evaluate(test_set, to).with_metrics(self.metrics, test_set)
        result = SeveralEvaluations(evaluations)
        return json.dumps(result.to_json(), ensure_ascii=False, indent=2) if as_json else result.to_text()

    def __call__(
        self,
        files: Sequence[Path],
        to: str | None,
        tags: Path | None,
        alignments: Path | None,
        output: Path | None,
        as_json: bool,
    ) -> str:
        """Evaluate on test files, write the translations to `output`, and return the text to print."""
        from regard.files import write_atomically

        test_set = self._read(files, to)
        alignment_scores = _score_alignment(self.translator, test_set, alignments, to) if alignments else None
        evaluation = self._evaluate(test_set, to, tags)
        if output:
            write_atomically(output, "".join(line + "\n" for line in evaluation.hypotheses).encode())
        evaluation = evaluation.with_metrics(self.metrics, test_set)  # last, so that a failure does not cost --output
        if as_json:
            tree = evaluation.to_json() | ({"alignment": alignment_scores.to_json()} if alignment_scores else {})
            return json.dumps(tree, ensure_ascii=False, indent=2)
        more = ["", f"alignment   {alignment_scores.to_text()}"] if alignment_scores else []
        return "\n".join([evaluation.to_text(), *more])

    def _read(self, files: Sequence[Path], to: str | None, name: str = "") -> "TestSet":
        """Read a test set, and print what is wrong with it; `name` comes first in these lines."""
        from regard.bundle import NO_LANGUAGES
        from regard.evaluate.test_set import read_test_files

        languages = self.translator.directions.find(to).languages
        test_set, problems = read_test_files(files, None if languages == NO_LANGUAGES else languages)
        for problem in (*problems, *self.options.problems_with(test_set.references)):
            print_warning(f"{name}{problem}")
        return test_set

    def _evaluate(self, test_set: "TestSet", to: str | None, tags: Path | None = None) -> "Evaluation":
        """Translate a test set and score it."""
        from regard.evaluate.test_set import read_tags
        from regard.evaluate.translation import evaluate as run_evaluation

        with ProgressLine() as progress:
            return run_evaluation(
                self.translator,
                test_set,
                self.options,
                baseline=self.baseline,
                paired=self.paired,
                tags=read_tags(tags, len(test_set.sources)) if tags else (),
                decode={**self.decode, "to": to},
                progress=progress,
            )


def _is_model(path: Path) -> bool:
    """Return whether an argument is a model directory rather than a test file or a folder of test data."""
    return (path / "config.json").is_file() and (path / "tokenizer").is_dir()


def _reject_unused(options: dict[str, Any], what: str) -> None:
    """Reject options that have no effect on a model of this kind, or on several test sets."""
    if unused := next((name for name, value in options.items() if value), None):
        raise UserError(f"{unused} has no effect on {what}; leave it out")


def _score_alignment(translator: "Translator", test_set: "TestSet", path: Path, to: str | None) -> "AlignmentScores":
    from regard.alignment.evaluate import AlignmentScores
    from regard.alignment.sentence_pairs import align_pairs
    from regard.data.word_alignments import read_alignments

    gold = read_alignments(path, len(test_set.sources))
    links = align_pairs(translator, test_set.sources, test_set.references, to=to)
    return AlignmentScores.of(list(links), gold)
