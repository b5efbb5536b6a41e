"""translate, the verb that everything is for."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import Device, ModelDir, app, as_text, quiet_if_reader_leaves, say, stdin_lines
from regard.cli.pipeline import Texts, translator_in
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.alignment.markup import Transfer
    from regard.pipelines.translator import Candidate, Translation, Translator

Beam = Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy.  [default: the model's, usually 5]")]
NBest = Annotated[int | None, typer.Option(min=1, help="So many translations a line, with their scores.")]
LengthPenalty = Annotated[float | None, typer.Option(help="α of the length normalisation.")]
MaxLen = Annotated[int | None, typer.Option(min=1, help="Tokens at most.  [default: twice the source and ten]")]
Prefix = Annotated[str | None, typer.Option(help="Every translation starts with this text.")]
Temperature = Annotated[float | None, typer.Option(help="With --sample: above 1 is bolder.")]
TopK = Annotated[int | None, typer.Option(help="With --sample: among the k likeliest tokens.")]
TopP = Annotated[float | None, typer.Option(help="With --sample: among the likeliest that hold this probability.")]
Others = Annotated[list[Path] | None, typer.Option(metavar="DIR", help="Another model that votes; repeatable.")]
Alignment = Annotated[
    bool, typer.Option("--alignment", help="Behind each translation ||| its word alignment, source-target: 0-0 1-2.")
]
Markup = Annotated[
    bool, typer.Option("--markup", help="Carry <b>tags</b> and {placeholders} over to where they belong.")
]
CopyUnknown = Annotated[
    bool, typer.Option("--copy-unknown", help="Take words that the model does not know from the source.")
]


@app.command()
def translate(
    folder: ModelDir,
    text: Texts = None,
    beam: Beam = None,
    n_best: NBest = None,
    length_penalty: LengthPenalty = None,
    max_len: MaxLen = None,
    min_len: Annotated[int | None, typer.Option(min=0, help="Tokens at least.")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(min=0, help="No n-gram of this size twice.")] = None,
    prefix: Prefix = None,
    alignment: Alignment = False,
    markup: Markup = False,
    copy_unknown: CopyUnknown = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens at random instead of searching.")] = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Annotated[int | None, typer.Option(help="With --sample.")] = None,
    ensemble: Others = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    device: Device = None,
) -> None:
    """Translate standard input, line by line, to standard output."""
    from regard.alignment.markup import Transfer

    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {key: value for key, value in sampling.items() if value is not None}
    if given and not sample:
        raise UserError(f"--{next(iter(given)).replace('_', '-')} only acts with --sample; add it")
    options: dict[str, Any] = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_len": max_len,
        "min_len": min_len,
        "no_repeat_ngram": no_repeat_ngram,
        "sampling": given if sample else None,
    }
    options = {key: value for key, value in options.items() if value is not None}
    translator = translator_in(folder, *(ensemble or ()), device=device)
    if n_best and beam is None and not sample:
        options["beam"] = max(translator.config.beam, n_best)
    shown = _Format(bool(n_best), alignment, as_json)
    transfer = Transfer(markup, copy_unknown)
    options["prefix"] = as_text(prefix) if prefix else None
    with quiet_if_reader_leaves():
        for translation in _translations(translator, text, transfer, alignment, options):
            say(shown(translation))


def _translations(
    translator: "Translator", texts: list[str] | None, transfer: "Transfer", attention: bool, options: dict[str, Any]
) -> Iterator["Translation"]:
    lines: Iterator[str] = map(as_text, texts) if texts else stdin_lines()
    # A person at a terminal waits for each line; a file is quicker in larger batches.
    n_lines = 1 if not texts and sys.stdin is not None and sys.stdin.isatty() else 256
    if transfer.markup or transfer.unknown:
        return transfer.translate(translator, lines, n_lines=n_lines, **options)
    return translator.stream(lines, n_lines, attention=attention, **options)


@dataclass(frozen=True)
class _Format:
    """How a translation is printed."""

    scores: bool
    alignment: bool
    as_json: bool

    def __call__(self, translation: "Translation") -> str:
        if self.as_json:
            return self._json(translation)
        best = translation.hypotheses if self.scores else translation.hypotheses[:1]
        return "\n".join(self._line(each) for each in best)

    def _line(self, candidate: "Candidate") -> str:
        from regard.alignment.aligner import moses

        line = f"{candidate.score:.4f}\t{candidate.text}" if self.scores else candidate.text
        return f"{line} ||| {moses(_links(candidate))}" if self.alignment else line

    def _json(self, translation: "Translation") -> str:
        best: list[dict[str, Any]] = [
            {"text": h.text, "score": h.score, "tokens": h.tokens}
            | ({"alignment": _links(h)} if self.alignment else {})
            for h in translation.hypotheses
        ]
        row = {"source": translation.source, "source_tokens": translation.source_tokens, "hypotheses": best}
        return json.dumps(row, ensure_ascii=False)


def _links(candidate: "Candidate") -> tuple[tuple[int, int], ...]:
    if candidate.attention is not None and not candidate.attention.cross.size:
        raise UserError("this model has no cross attention, and so no alignment; leave --alignment out")
    return candidate.alignment or ()
