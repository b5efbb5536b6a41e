"""`regard explain`: the computations of the lectures, step by step."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.options import JsonOption
from regard.cli.output import check_out_file, print_line
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.explain.explanation import Explanation

_FORMATS = (".html", ".json", ".png", ".svg")


@app.command()
def explain(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="attention, beam …, or a number of the lectures such as W5.  [default: list all topics]",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Compute with this model instead of the lecture's numbers.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="With --model: the sentence.")] = None,
    kind: Annotated[str | None, typer.Option(help="With --model: encoder, decoder or cross attention.")] = None,
    layer: Annotated[int, typer.Option(min=0, help="With --model: the layer, from 0.")] = 0,
    head: Annotated[int, typer.Option(min=0, help="With --model: the head, from 0.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="A .html or .json file or, for topics with a plot, .png or .svg.  [default: the terminal]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Work through a computation of the lectures step by step.

    Uses the lecture's numbers or, with --model, those of your own model.
    """
    from regard.explain.render_text import render_text
    from regard.explain.topics import explain_topic, list_topics

    check_out_file(out, _FORMATS)
    if out and as_json:
        raise UserError("--json prints to the terminal; leave it out and write --out FILE.json instead")
    if model is None and (text is not None or kind is not None or layer or head):
        raise UserError("--text, --kind, --layer and --head have no effect without --model; add --model DIR")
    if topic is None:
        if model or out or as_json:
            raise UserError("name a topic to explain; `regard explain` lists them")
        print_line(list_topics())
        return
    explanation = explain_topic(topic, model, text, kind=kind, layer=layer, head=head)
    if out:
        _write(explanation, out)
        print_line(str(out))
        return
    print_line(explanation.to_json() if as_json else render_text(explanation))


def _write(explanation: "Explanation", out: Path) -> None:
    from regard.explain.plot import draw_plot
    from regard.explain.render_html import render_html
    from regard.files import write_atomically

    if out.suffix == ".json":
        write_atomically(out, explanation.to_json().encode())
    elif out.suffix == ".html":
        write_atomically(out, render_html(explanation).encode())
    elif explanation.plot is None:
        raise UserError(f"--out {out}: this topic has no plot; write a .html or .json file")
    else:
        draw_plot(explanation.plot, out)
