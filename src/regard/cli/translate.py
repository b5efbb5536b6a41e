"""`regard translate`: lines of text in, translations out."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

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
)
from regard.cli.output import ProgressLine, print_line, print_warning
from regard.cli.pipeline import load_translator
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.pipelines.translation import Candidate, Translation
    from regard.pipelines.translator import Translator

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
    Path | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="Translate the lines of this file (plain, .gz, .xz, .zst), the sources of a file of pairs (.tmx …), "
        "or with --output a document.",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Translate --input as a document (txt, html, docx, odt, srt, epub) with its structure into this file.",
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
        help="hard: the search finds translations with the terms; soft: the model reads them, if it was trained for "
        "that.  [default: soft if it was, otherwise hard]",
    ),
]
FoldersArgument = Annotated[
    list[Path],
    typer.Argument(metavar="DIR", help="A model directory, written by `regard train`; several form an ensemble."),
]
EnsembleOption = Annotated[list[Path] | None, typer.Option(hidden=True)]

_N_EXAMPLES = 5  # words that a warning shows


@app.command()
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
) -> None:
    """Translate text line by line; with --output, a document.

    The sentences of a line are translated one by one, unless there are --n-best or --prefix.
    A line that is too long is reported, and its translation is an empty line; the exit code is then 2.
    """
    options = search.options(mbr=bool(decoding.mbr)) | decoding.options(search.beam, search.sample)
    options |= {"to": to, "as_written": as_written, "split": not no_split, **_glossary(glossary, glossary_mode)}
    if prefix:
        options["prefix"] = decode_argument(prefix)
    unused = {"--text": text, "--n-best": search.n_best, "--prefix": prefix, "--alignment": alignment}
    files = _document_files(input_, output, {**unused, "--json": as_json, "--no-split": no_split})
    _check_folders(folders)
    translator = load_translator(
        *folders, *(ensemble or ()), device=device, max_source=max_source, engine=engine, **decoding.folders
    )
    if files:
        _translate_document(translator, *files, copy_unknown, options)
        return
    if search.n_best and search.beam is None and not (search.sample or decoding.draft):
        options["beam"] = max(translator.decode_config.beam, search.n_best)
    lines, n_lines = _source_lines(translator, text, input_, to), lines_at_once(text, input_)
    translations = _translate_all(translator, lines, n_lines, (markup, copy_unknown), alignment, options)
    _print_all(translations, _Formatter(bool(search.n_best), alignment, as_json))


def _check_folders(folders: Sequence[Path]) -> None:
    """Refuse a file among the models: its lines are read from standard input or with --input."""
    if file := next((path for path in folders[1:] if not path.is_dir()), None):
        raise UserError(f"{file}: is not a model directory; to translate the lines of a file, write `--input {file}`")


def _glossary(path: Path | None, mode: str | None) -> dict[str, Any]:
    """Return the options of the glossary."""
    from regard.data.glossary import Glossary, GlossaryMode

    if mode and path is None:
        raise UserError("--glossary-mode has no effect without --glossary; add --glossary FILE")
    if mode and mode not in get_args(GlossaryMode):
        raise UserError(f"--glossary-mode {mode}: unknown; choose hard or soft")
    return {"glossary": Glossary.read(path), "glossary_mode": mode} if path else {}


def _source_lines(
    translator: "Translator", texts: list[str] | None, path: Path | None, to: str | None
) -> Iterator[str]:
    """Return the lines to translate: --text, --input or standard input."""
    direction = translator.directions.find(to) if to else translator.directions.first
    return input_texts(texts) if path is None else file_texts(path, texts, direction.languages)


def _document_files(source: Path | None, target: Path | None, unused: Mapping[str, object]) -> tuple[Path, Path] | None:
    """Return the paths of a document and its translation, if they and the other options are right; None for lines."""
    from regard.documents.kinds import check_document_files, is_rich_document

    if target is None:
        if source is None or not is_rich_document(source.name):
            return None
        raise UserError(f"{source}: is a document; name its translation with --output FILE{source.suffix}")
    if source is None:
        raise UserError("--output needs a document as --input; redirect the translation of lines with > FILE")
    if option := next((name for name, value in unused.items() if value), None):
        raise UserError(f"{option} has no effect on a document; leave {option} or --output out")
    check_document_files(source, target)
    return source, target


def _translate_document(
    translator: "Translator", source: Path, target: Path, copy_unknown: bool, options: dict[str, Any]
) -> None:
    """Translate a document, and print warnings; end with code 2 if a paragraph could not be translated."""
    from regard.documents.translate import translate_document

    options = {name: value for name, value in options.items() if name != "split"}  # documents are always split
    unseen, unmet = _unseen_words(), _unmet_terms()
    with ProgressLine("paragraphs") as progress:
        report = translate_document(translator, source, target, copy_unknown=copy_unknown, progress=progress, **options)
    unseen.add(report.unknown)
    unmet.add(map(str, report.unmet_terms))
    unseen.warn()
    unmet.warn()
    for problem in report.problems:
        print_warning(problem.describe(f"{source}: a sentence", "--max-source") + "; its paragraph was not translated")
    if report.problems:
        raise typer.Exit(2)


def _print_all(translations: Iterable["Translation"], formatter: "_Formatter") -> None:
    """Print the translations as they come, and warnings; end with code 2 if a line could not be translated."""
    n_refused, unseen, unmet = 0, _unseen_words(), _unmet_terms()
    with ProgressLine("lines", visible=not sys.stdout.isatty()) as progress:
        for number, translation in enumerate(translations, start=1):
            if translation.problem:
                print_warning(translation.problem.describe(f"line {number:,}", "--max-source"))
                n_refused += 1
            print_line(formatter(translation))
            unseen.add(translation.unknown)
            unmet.add(f"line {number:,}: {term}" for term in translation.unmet_terms)
            progress("translated", number)
    unseen.warn()
    unmet.warn()
    if n_refused:
        raise typer.Exit(2)


def _translate_all(
    translator: "Translator",
    lines: Iterator[str],
    n_lines: int,
    carried: tuple[bool, bool],
    attention: bool,
    options: dict[str, Any],
) -> Iterator["Translation"]:
    """Translate lines; `carried` says whether markup and unknown words are carried over from the source."""
    from regard.alignment.transfer import MarkupTransfer

    transfer = MarkupTransfer(*carried)
    if transfer.markup or transfer.unknown:
        return transfer.translate(translator, lines, n_lines=n_lines, skip_long=True, **options)
    return translator.stream(lines, n_lines, attention=attention, skip_long=True, **options)


class _Examples:
    """Counts things of one kind, and keeps the first ones for a warning at the end."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.total = 0
        self.first: dict[str, None] = {}
        self.more = False

    def add(self, examples: Iterable[str]) -> None:
        """Add those of a line."""
        for example in examples:
            self.total += 1
            if len(self.first) < _N_EXAMPLES:
                self.first[example] = None
            elif example not in self.first:
                self.more = True

    def warn(self) -> None:
        """Print a warning if there are any."""
        if self.total:
            shown = ", ".join([*self.first, *(["…"] if self.more else [])])
            print_warning(f"{self.total:,} × {self.what}: {shown}")


def _unseen_words() -> _Examples:
    return _Examples("a word that never occurred in training")


def _unmet_terms() -> _Examples:
    return _Examples("a term of the glossary that is not in the translation")


@dataclass(frozen=True)
class _Formatter:
    """Turns a Translation into the lines to print."""

    scores: bool
    alignment: bool
    as_json: bool

    def __call__(self, translation: "Translation") -> str:
        if self.as_json:
            return self._json(translation)
        candidates = translation.hypotheses if self.scores else translation.hypotheses[:1]
        return "\n".join(self._line(candidate) for candidate in candidates)

    def _line(self, candidate: "Candidate") -> str:
        from regard.alignment.from_attention import format_links

        line = f"{candidate.score:.4f}\t{candidate.text}" if self.scores else candidate.text
        return f"{line} ||| {format_links(_links(candidate))}" if self.alignment else line

    def _json(self, translation: "Translation") -> str:
        hypotheses: list[dict[str, Any]] = [
            {"text": h.text, "score": h.score, "confidence": h.confidence, "tokens": h.tokens}
            | ({"alignment": _links(h)} if self.alignment else {})
            for h in translation.hypotheses
        ]
        row = {
            "source": translation.source,
            "source_tokens": translation.source_tokens,
            "unknown": translation.unknown,
            "hypotheses": hypotheses,
        }
        if translation.unmet_terms:
            row["unmet_terms"] = [str(term) for term in translation.unmet_terms]
        if translation.problem:
            row["problem"] = translation.problem.problem
        return json.dumps(row, ensure_ascii=False)


def _links(candidate: "Candidate") -> tuple[tuple[int, int], ...]:
    if candidate.attention is not None and not candidate.attention.cross.size:
        raise UserError("this model has no cross attention, and so no word alignment; leave --alignment out")
    return candidate.alignment or ()
