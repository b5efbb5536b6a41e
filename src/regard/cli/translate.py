"""`regard translate`: lines of text in, translations out."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import app
from regard.cli.input import decode_argument, file_texts, input_texts, lines_at_once
from regard.cli.options import (
    BeamOption,
    DeviceOption,
    EngineOption,
    JsonLinesOption,
    MaxSourceOption,
    ModelDirArgument,
    StandardInputCommand,
    TextOption,
)
from regard.cli.output import ProgressLine, print_line, print_warning
from regard.cli.pipeline import load_translator
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.alignment.transfer import MarkupTransfer
    from regard.pipelines.translation import Candidate, Translation
    from regard.pipelines.translator import Translator

NBestOption = Annotated[int | None, typer.Option(min=1, help="Print the N best translations with their scores.")]
LengthPenaltyOption = Annotated[float | None, typer.Option(help="Exponent α of the length normalisation.")]
MaxLenOption = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of tokens.  [default: twice the source length plus 10]")
]
MinLenOption = Annotated[int | None, typer.Option(min=0, help="Minimum number of tokens.")]
NoRepeatOption = Annotated[int | None, typer.Option(min=0, help="Never repeat an n-gram of this size.")]
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
SampleOption = Annotated[bool, typer.Option("--sample", help="Sample tokens at random instead of searching.")]
TemperatureOption = Annotated[
    float | None, typer.Option(help="With --sample: below 1 is more predictable, above 1 more varied.")
]
TopKOption = Annotated[int | None, typer.Option(help="With --sample: only from the K most likely tokens.")]
TopPOption = Annotated[
    float | None, typer.Option(help="With --sample: only from the most likely tokens with this total probability.")
]
SeedOption = Annotated[int | None, typer.Option(help="With --sample: the same seed gives the same output.")]
InputOption = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="Translate the lines of this file (plain, .gz, .xz, .zst), or the sources of a file of pairs (.tmx …).",
    ),
]
EnsembleOption = Annotated[
    list[Path] | None, typer.Option(metavar="DIR", help="Another model to decode with as an ensemble; repeatable.")
]

_N_EXAMPLES = 5  # words that a warning shows


@app.command(cls=StandardInputCommand)
def translate(
    folder: ModelDirArgument,
    text: TextOption = None,
    input_: InputOption = None,
    beam: BeamOption = None,
    n_best: NBestOption = None,
    length_penalty: LengthPenaltyOption = None,
    max_len: MaxLenOption = None,
    min_len: MinLenOption = None,
    max_source: MaxSourceOption = None,
    no_repeat_ngram: NoRepeatOption = None,
    prefix: PrefixOption = None,
    alignment: AlignmentOption = False,
    markup: MarkupOption = False,
    copy_unknown: CopyUnknownOption = False,
    no_split: NoSplitOption = False,
    as_written: AsWrittenOption = False,
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    ensemble: EnsembleOption = None,
    as_json: JsonLinesOption = False,
    engine: EngineOption = "torch",
    device: DeviceOption = None,
) -> None:
    """Translate text line by line, from standard input or a file.

    The sentences of a line are translated one by one, unless there are --n-best or --prefix.
    A line that is too long is reported, and its translation is an empty line; the exit code is then 2.
    """
    from regard.alignment.transfer import MarkupTransfer

    sampling = _without_none(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    if sampling and not sample:
        raise UserError(f"--{next(iter(sampling)).replace('_', '-')} has no effect without --sample; add --sample")
    options = _without_none(
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        max_len=max_len,
        min_len=min_len,
        no_repeat_ngram=no_repeat_ngram,
        sampling=sampling if sample else None,
        prefix=decode_argument(prefix) if prefix else None,
        as_written=as_written,
        split=not no_split,
    )
    translator = load_translator(folder, *(ensemble or ()), device=device, max_source=max_source, engine=engine)
    if n_best and beam is None and not sample:
        options["beam"] = max(translator.decode_config.beam, n_best)
    lines = input_texts(text) if input_ is None else file_texts(input_, text, translator.languages)
    n_lines = lines_at_once(text, input_)
    translations = _translate_all(translator, lines, n_lines, MarkupTransfer(markup, copy_unknown), alignment, options)
    _print_all(translations, _Formatter(bool(n_best), alignment, as_json))


def _print_all(translations: Iterable["Translation"], formatter: "_Formatter") -> None:
    """Print the translations as they come, and warnings; end with code 2 if a line could not be translated."""
    n_refused, unseen = 0, _UnseenWords()
    with ProgressLine("lines", visible=not sys.stdout.isatty()) as progress:
        for number, translation in enumerate(translations, start=1):
            if translation.problem:
                print_warning(translation.problem.describe(f"line {number:,}", "--max-source"))
                n_refused += 1
            print_line(formatter(translation))
            unseen.add(translation.unknown)
            progress("translated", number)
    unseen.warn()
    if n_refused:
        raise typer.Exit(2)


def _without_none(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _translate_all(
    translator: "Translator",
    lines: Iterator[str],
    n_lines: int,
    transfer: "MarkupTransfer",
    attention: bool,
    options: dict[str, Any],
) -> Iterator["Translation"]:
    if transfer.markup or transfer.unknown:
        return transfer.translate(translator, lines, n_lines=n_lines, skip_long=True, **options)
    return translator.stream(lines, n_lines, attention=attention, skip_long=True, **options)


class _UnseenWords:
    """Words that never occurred in training, for a warning at the end."""

    def __init__(self) -> None:
        self.total = 0
        self.first: dict[str, None] = {}
        self.more = False

    def add(self, words: Sequence[str]) -> None:
        """Add the words of a line."""
        self.total += len(words)
        for word in words:
            if len(self.first) < _N_EXAMPLES:
                self.first[word] = None
            elif word not in self.first:
                self.more = True

    def warn(self) -> None:
        """Print a warning if there are any words."""
        if self.total:
            shown = ", ".join([*self.first, *(["…"] if self.more else [])])
            print_warning(f"{self.total:,} × a word that never occurred in training: {shown}")


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
        if translation.problem:
            row["problem"] = translation.problem.problem
        return json.dumps(row, ensure_ascii=False)


def _links(candidate: "Candidate") -> tuple[tuple[int, int], ...]:
    if candidate.attention is not None and not candidate.attention.cross.size:
        raise UserError("this model has no cross attention, and so no word alignment; leave --alignment out")
    return candidate.alignment or ()
