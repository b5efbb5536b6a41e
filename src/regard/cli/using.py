"""Verbs that use models: generate, classify, embed, caption."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import (
    AsJson,
    Device,
    ModelDir,
    app,
    as_text,
    checked_device,
    quiet_if_reader_leaves,
    say,
    stdin_lines,
)
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.translator import Translator

Texts = Annotated[list[str] | None, typer.Option(help="This text instead of standard input; repeatable.")]


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
    prompt = as_text(prompt)
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
