"""`regard translate`: lines of text in, translations out."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from regard.cli.app import app
from regard.cli.decoding_options import DecodingOptions, SearchOptions
from regard.cli.input import decode_argument, file_texts, input_texts, lines_at_once
from regard.cli.option_groups import with_option_groups
from regard.cli.options import (
    DeviceOption,
    EngineOption,
    JsonLinesOption,
    MaxSourceOption,
    TextOption,
    ToOption,
    without_none,
)
from regard.cli.output import ProgressLine, continue_by_same_command, print_line, print_warning
from regard.cli.pipeline import check_device, say_engine
from regard.cli.worker_options import WorkerOptions
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bulk.line_translator import LineTranslator, TranslationWork
    from regard.pipelines.translation import Translation

PrefixOption = Annotated[str | None, typer.Option(help="Every translation starts with this text.")]
AlignmentOption = Annotated[
    bool, typer.Option("--alignment", help="Append ||| and the word alignment (source-target), e.g. 0-0 1-2.")
]
MarkupOption = Annotated[
    bool, typer.Option("--markup", help="Place <b>tags</b> and {placeholders} of the source in the translation.")
]
CopyUnknownOption = Annotated[
    bool, typer.Option("--copy-unknown", help="Copy words that the model does not know from the source.")
]
NoSplitOption = Annotated[
    bool, typer.Option("--no-split", help="Translate each line as one sentence, even if it has several.")
]
AsWrittenOption = Annotated[
    bool,
    typer.Option("--as-written", help="Do not change case and punctuation that the model has not seen in training."),
]
InputOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--input",
        metavar="FILE…",
        help="Translate the lines of this file (plain, .gz, .xz, .zst), the sources of a file of pairs (.tmx …), "
        "or with --output a document, or several files of lines: names, patterns or a folder.",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="PATH",
        help="Translate --input as a document (txt, html, docx, odt, srt, epub) with its structure into this file; "
        "or files of lines into this folder, with several workers.",
    ),
]
GlossaryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Translate terms as in this file: per line a source term, a tab, and its target (or several: a | b).",
    ),
]
GlossaryModeOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="How translations that lack terms are made again: soft: the model reads them, if it was trained for that; "
        "hard: also by a search for translations with them.  [default: soft if it was, otherwise hard]",
    ),
]
FoldersArgument = Annotated[
    list[Path],
    typer.Argument(metavar="DIR", help="A model directory, written by `regard train`; several form an ensemble."),
]
EnsembleOption = Annotated[list[Path] | None, typer.Option(hidden=True)]


class InputFilesCommand(TyperCommand):
    """A command whose --input takes any number of files, up to the next option or model directory."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        expanded, of_input = list[str](), False
        for i, word in enumerate(args):
            follows = i > 0 and args[i - 1] == "--input"
            of_input = follows or (of_input and not word.startswith("-") and not (Path(word) / "config.json").exists())
            expanded += ["--input", word] if of_input and not follows else [word]
        return super().parse_args(ctx, expanded)


@app.command(cls=InputFilesCommand)
@with_option_groups
def translate(
    folders: FoldersArgument,
    text: TextOption = None,
    to: ToOption = None,
    input_: InputOption = None,
    output: OutputOption = None,
    search: SearchOptions = SearchOptions(),
    max_source: MaxSourceOption = None,
    prefix: PrefixOption = None,
    alignment: AlignmentOption = False,
    markup: MarkupOption = False,
    copy_unknown: CopyUnknownOption = False,
    no_split: NoSplitOption = False,
    as_written: AsWrittenOption = False,
    glossary: GlossaryOption = None,
    glossary_mode: GlossaryModeOption = None,
    decoding: DecodingOptions = DecodingOptions(),
    ensemble: EnsembleOption = None,
    as_json: JsonLinesOption = False,
    engine: EngineOption = "torch",
    device: DeviceOption = None,
    workers: WorkerOptions = WorkerOptions(),
) -> None:
    """Translate lines, a document or many files.

    The sentences of a line are translated one by one, unless there are --n-best or --prefix.
    A line that is too long is reported, and its translation is an empty line; the exit code is then 2.
    The same command continues a translation of many files that was stopped.
    """
    from regard.bulk.line_format import LineFormat
    from regard.bulk.line_translator import LineTranslator, TranslationWork

    options = search.options(mbr=bool(decoding.mbr)) | decoding.options(search.beam, search.sample, search.n_best)
    start = decode_argument(prefix) if prefix else None
    options |= without_none(to=to, as_written=as_written, split=not no_split, prefix=start)
    line_format = LineFormat(scores=bool(search.n_best), alignment=alignment, as_json=as_json)
    work = TranslationWork(
        models=(*_model_folders(folders), *(ensemble or ())),
        **decoding.folders,
        engine=engine,
        max_source=max_source,
        options=options,
        **_glossary(glossary, glossary_mode),
        markup=markup,
        copy_unknown=copy_unknown,
        format=line_format,
    )
    unused = {"--text": text, "--n-best": search.n_best, "--prefix": prefix, "--alignment": alignment}
    flags = {"--json": as_json, "--no-split": no_split, "--markup": markup}
    document = _document_files(input_, output, {**unused, **flags})
    if output and not document:
        _translate_files(work, input_ or [], output, text, workers, device)
        return
    workers.check_unused()
    translator = LineTranslator(work, check_device(device))
    say_engine(translator.translator, engine)
    if document:
        _translate_document(translator, *document)
        return
    _print_all(_translate_lines(translator, text, input_[0] if input_ else None, to), line_format)


def _model_folders(folders: Sequence[Path]) -> Sequence[Path]:
    """Refuse a file among the folders of models: its lines are read from standard input or with --input."""
    if file := next((path for path in folders[1:] if not path.is_dir()), None):
        raise UserError(f"{file}: is not a model directory; to translate the lines of a file, write `--input {file}`")
    return folders


def _glossary(path: Path | None, mode: str | None) -> dict[str, Any]:
    """Return the options of the glossary."""
    from regard.data.glossary import Glossary, GlossaryMode

    if mode and path is None:
        raise UserError("--glossary-mode has no effect without --glossary; add --glossary FILE")
    if mode and mode not in get_args(GlossaryMode):
        raise UserError(f"--glossary-mode {mode}: unknown; choose hard or soft")
    return {"glossary": Glossary.read(path), "glossary_mode": mode} if path else {}


def _translate_lines(
    translator: "LineTranslator", texts: list[str] | None, path: Path | None, to: str | None
) -> Iterator["Translation"]:
    """Translate the lines of --text, --input or standard input."""
    directions = translator.translator.directions
    languages = (directions.find(to) if to else directions.first).languages
    lines = input_texts(texts) if path is None else file_texts(path, texts, languages)
    return translator.stream(lines, lines_at_once(texts, path))


def _document_files(
    sources: Sequence[Path] | None, target: Path | None, unused: Mapping[str, object]
) -> tuple[Path, Path] | None:
    """Return the paths of a document and its translation, if they and the other options are right; None for lines."""
    from regard.documents.kinds import check_document_files, is_document, is_rich_document

    source = sources[0] if sources else None
    if target is None:
        if sources and len(sources) > 1:
            raise UserError("--input has several files; name a folder for their translations with --output FOLDER")
        if source is None or not is_rich_document(source.name):
            return None
        raise UserError(f"{source}: is a document; name its translation with --output FILE{source.suffix}")
    if sources is None or source is None:
        raise UserError("--output needs --input: a document, or files of lines; or redirect the output with > FILE")
    has_lines = not is_document(source.name) or (not is_rich_document(source.name) and not target.suffix)
    if len(sources) > 1 or source.is_dir() or has_lines or target.is_dir():
        return None
    if option := next((name for name, value in unused.items() if value), None):
        raise UserError(f"{option} has no effect on a document; leave {option} or --output out")
    check_document_files(source, target)
    return source, target


def _translate_files(
    work: "TranslationWork",
    sources: Sequence[Path],
    folder: Path,
    texts: list[str] | None,
    workers: WorkerOptions,
    device: str | None,
) -> None:
    """Translate files of lines into a folder, and print warnings; end with code 2 if a line has no translation."""
    from regard.bulk.shard_translation import ShardTranslation
    from regard.bulk.shards import find_shards
    from regard.documents.kinds import is_rich_document

    if texts:
        raise UserError("--input and --text exclude each other; give one of them")
    if len(sources) == 1 and sources[0].is_file() and folder.suffix and not folder.exists():
        raise UserError(
            f"--output {folder}: the translations of lines go into a folder; make a folder of that name first, or "
            f"leave --output out and write `> {folder}`"
        )
    shards = find_shards(sources)
    if document := next((path for path in shards if is_rich_document(path.name)), None):
        raise UserError(f"{document}: is a document; translate it alone, with --output FILE{document.suffix}")
    work.check()
    job = ShardTranslation(work, tuple(shards), folder, workers.choose(device), workers.lines())
    with continue_by_same_command(), ProgressLine("lines", log=True) as progress:
        report = job.run(progress)
    for warning in report.warnings():
        print_warning(warning)
    if report.refused.total:
        raise typer.Exit(2)


def _translate_document(lines: "LineTranslator", source: Path, target: Path) -> None:
    """Translate a document, and print warnings; end with code 2 if a paragraph could not be translated."""
    from regard.bulk.line_report import LineReport
    from regard.documents.translate import translate_document

    work, found = lines.work, LineReport()
    options = {name: value for name, value in work.options.items() if name != "split"}  # documents are always split
    options |= {"glossary": work.glossary, "glossary_mode": work.glossary_mode, "copy_unknown": work.copy_unknown}
    with ProgressLine("paragraphs") as progress:
        report = translate_document(lines.translator, source, target, progress=progress, **options)
    found.unseen.add(report.unknown)
    found.unmet.add(map(str, report.unmet_terms))
    for warning in found.warnings():
        print_warning(warning)
    for problem in report.problems:
        print_warning(problem.describe(f"{source}: a sentence", "--max-source") + "; its paragraph was not translated")
    if report.problems:
        raise typer.Exit(2)


def _print_all(translations: Iterable["Translation"], line_format: Callable[["Translation"], str]) -> None:
    """Print the translations as they come, and warnings; end with code 2 if a line could not be translated."""
    from regard.bulk.line_report import Examples, LineReport

    report = LineReport()
    with ProgressLine("lines", visible=not sys.stdout.isatty()) as progress:
        for number, translation in enumerate(translations, start=1):
            if translation.problem:
                print_warning(translation.problem.describe(f"line {number:,}", "--max-source"))
            print_line(line_format(translation))
            report.add(number, translation)
            progress("translated", number)
    refused, report.refused = report.refused.total, Examples()  # these were printed one by one
    for warning in report.warnings():
        print_warning(warning)
    if refused:
        raise typer.Exit(2)
