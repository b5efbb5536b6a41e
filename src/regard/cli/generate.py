"""`regard generate`: continue a prompt."""

from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.input import decode_argument
from regard.cli.options import DeviceOption, ModelDirArgument
from regard.cli.output import print_line, print_text
from regard.cli.pipeline import load_kind
from regard.errors import UserError


@app.command()
def generate(
    folder: ModelDirArgument,
    prompt: Annotated[str, typer.Option(help="The text to continue.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of new tokens.")] = 200,
    temperature: Annotated[float, typer.Option(help="Below 1 is more predictable, above 1 more varied.")] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Sample only from the K most likely tokens; 0: from all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Sample only from the most likely tokens with this total probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same text.")] = 1,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Search for the most likely text with this beam width; do not sample.")
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="With --beam: print the N best texts with their scores.")] = 1,
    next_: Annotated[
        int | None, typer.Option("--next", min=1, metavar="K", help="Print only the K most likely next tokens.")
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Continue a prompt with a language model, token by token."""
    from regard.pipelines.generator import Generator
    from regard.search.sampling import SamplingConfig

    if n_best > 1 and not beam:
        raise UserError("--n-best has no effect without --beam; add --beam")
    generator = load_kind(folder, Generator, device)
    prompt = decode_argument(prompt)
    if next_:
        for token, probability in generator.next(prompt, next_):
            print_line(f"{probability:.4f}\t{token}")
        return
    if beam:
        for text in generator.beam(prompt, max_new_tokens, max(beam, n_best), n_best):
            print_line(f"{text.score:.4f}\t{text.text}" if n_best > 1 else text.text)
        return
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling = SamplingConfig.parse(options, where="generate")
    print_text(prompt)
    for piece in generator.stream(prompt, max_new_tokens, **sampling.model_dump()):
        print_text(piece)
    print_line("")
