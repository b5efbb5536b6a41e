"""Verbs that use models: translate, generate, classify, embed, caption."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import AsJson, Device, ModelDir, app, checked_device, quiet_if_reader_leaves, say, stdin_lines
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.translator import Translation, Translator

Texts = Annotated[list[str] | None, typer.Option(help="This text instead of standard input; repeatable.")]


@app.command()
def translate(
    folder: ModelDir,
    text: Annotated[
        list[str] | None, typer.Option(help="Translate this text instead of standard input; repeatable.")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Beam width; 1 is greedy.  [default: the model's, usually 5]")
    ] = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="So many translations a line, with their scores.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="α of the length normalisation.")] = None,
    max_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens at most.  [default: twice the source and ten]")
    ] = None,
    min_len: Annotated[int | None, typer.Option(min=0, help="Tokens at least.")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(min=0, help="No n-gram of this size twice.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Every translation starts with this text.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens at random instead of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(help="With --sample: above 1 is bolder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="With --sample: among the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="With --sample: among the likeliest that hold this probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="With --sample.")] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Another model that votes; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    device: Device = None,
) -> None:
    """Translate standard input, line by line, to standard output."""
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {key: value for key, value in sampling.items() if value is not None}
    if given and not sample:
        raise UserError(f"--{next(iter(given)).replace('_', '-')} only acts with --sample; add it")
    options = {
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
    with quiet_if_reader_leaves():
        for translation in _translations(translator, text, prefix, options):
            say(_shown(translation, bool(n_best), as_json))


@app.command()
def generate(
    folder: ModelDir,
    prompt: Annotated[str, typer.Option(help="The text begins with this.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens at most.")] = 200,
    temperature: Annotated[float, typer.Option(help="Below 1 is safer, above 1 bolder.")] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Among the k likeliest tokens; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Among the likeliest that hold this probability.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same text.")] = 1,
    beam: Annotated[int | None, typer.Option(min=1, help="Search for the likeliest text instead of drawing.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="With --beam: so many texts, with their scores.")] = 1,
    next_: Annotated[
        int | None, typer.Option("--next", min=1, help="Print only the so many likeliest next tokens.")
    ] = None,
    device: Device = None,
) -> None:
    """Write on from a prompt, token by token, with a language model."""
    from regard.search.decode import SamplingConfig
    from regard.writer import Writer

    writer = _loaded(folder, Writer, "language model (--recipe gpt)", device)
    prompt = os.fsencode(prompt).decode("utf-8", errors="replace")
    if n_best > 1 and not beam:
        raise UserError("--n-best only acts with --beam; add it")
    with quiet_if_reader_leaves():
        if next_:
            for token, probability in writer.next(prompt, next_):
                say(f"{probability:.4f}\t{token}")
            return
        if beam:
            for text in writer.beam(prompt, max_new_tokens, max(beam, n_best), n_best):
                say(f"{text.score:.4f}\t{text.text}" if n_best > 1 else text.text)
            return
        drawn = SamplingConfig.parse(
            {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}, where="generate"
        )
        sys.stdout.buffer.write(prompt.encode())
        for piece in writer.stream(prompt, max_new_tokens, **drawn.model_dump()):
            sys.stdout.buffer.write(piece.encode())
            sys.stdout.buffer.flush()
        say("")


@app.command()
def classify(folder: ModelDir, text: Texts = None, as_json: AsJson = False, device: Device = None) -> None:
    """The label of each line of standard input."""
    from regard.classifier import Classifier

    classifier = _loaded(folder, Classifier, "classifier (--recipe classifier)", device)
    with quiet_if_reader_leaves():
        for found in classifier.classify(text or list(stdin_lines())):
            row = {"text": found.text, "label": found.label, "probabilities": found.probabilities}
            say(json.dumps(row, ensure_ascii=False) if as_json else found.label)


@app.command()
def embed(folder: ModelDir, text: Texts = None, device: Device = None) -> None:
    """Each line of standard input as a vector: a JSON list a line."""
    from regard.classifier import Classifier

    encoder = _loaded(folder, Classifier, "encoder (--recipe bert)", device)
    with quiet_if_reader_leaves():
        for vector in encoder.embed(text or list(stdin_lines())):
            say(json.dumps([round(float(x), 6) for x in vector]))


@app.command()
def caption(
    folder: ModelDir,
    pictures: Annotated[list[Path], typer.Argument(metavar="PICTURE…", help="Image files.")],
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width.  [default: the model's]")] = None,
    device: Device = None,
) -> None:
    """Say what is in pictures."""
    from regard.captioner import Captioner

    captioner = _loaded(folder, Captioner, "captioner (--recipe caption)", device)
    with quiet_if_reader_leaves():
        for path, found in zip(pictures, captioner.caption(pictures, **({"beam": beam} if beam else {})), strict=True):
            say(f"{path}\t{found.text}" if len(pictures) > 1 else found.text)


def translator_in(*folders: Path, device: str | None) -> "Translator":
    from regard.loading import load_translator

    return load_translator(*folders, device=checked_device(device))


def _loaded(folder: Path, kind: type[Any], noun: str, device: str | None) -> Any:
    from regard.loading import load

    found = load(folder, device=checked_device(device))
    if not isinstance(found, kind):
        raise UserError(f"{folder}: is no {noun}")
    return found


def _translations(
    translator: "Translator", texts: list[str] | None, prefix: str | None, options: dict[str, Any]
) -> Iterator["Translation"]:
    lines: Iterator[str] = iter(texts) if texts else stdin_lines()
    # A person at a terminal waits for each line; a file is quicker in larger batches.
    n_lines = 1 if not texts and sys.stdin is not None and sys.stdin.isatty() else 256
    yield from translator.stream(lines, n_lines, prefix=prefix, **options)


def _shown(translation: "Translation", scores: bool, as_json: bool) -> str:
    if as_json:
        best = [{"text": h.text, "score": h.score, "tokens": h.tokens} for h in translation.hypotheses]
        row = {"source": translation.source, "source_tokens": translation.source_tokens, "hypotheses": best}
        return json.dumps(row, ensure_ascii=False)
    if scores:
        return "\n".join(f"{h.score:.4f}\t{h.text}" for h in translation.hypotheses)
    return translation.text
