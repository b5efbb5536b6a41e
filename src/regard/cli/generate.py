"""The verb generate."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import (
    Device,
    ModelDir,
    app,
    as_text,
    quiet_if_reader_leaves,
    say,
)
from regard.cli.pipeline import loaded
from regard.errors import UserError

if TYPE_CHECKING:
    pass


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
    from regard.pipelines.generator import Generator
    from regard.search.decode import SamplingConfig

    writer = loaded(folder, Generator, "language model (--recipe gpt)", device)
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
