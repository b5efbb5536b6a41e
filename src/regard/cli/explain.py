"""Verbs that explain: explain."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import AsJson, app, quiet_if_reader_leaves, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.explain.explanation import Explanation

_PICTURES = (".png", ".svg")
_FORMATS = (".html", ".json", *_PICTURES)


@app.command()
def explain(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="attention, beam … or W5; without it, a list of all.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Work it out on this model in place of the lecture's figures.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="With --model: the sentence.")] = None,
    kind: Annotated[str | None, typer.Option(help="With --model: attention of the encoder, decoder or cross.")] = None,
    layer: Annotated[int, typer.Option(min=0, help="With --model: one layer, from 0.")] = 0,
    head: Annotated[int, typer.Option(min=0, help="With --model: one head, from 0.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="A .html or .json, or a .png or .svg where there is a picture.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The lectures' computations step by step, on their own figures or on a model of yours."""
    from regard.explain.model_input import ModelInput
    from regard.explain.render_text import as_text
    from regard.explain.topics import listed, topic_named

    if out and (out.suffix not in _FORMATS or not out.parent.is_dir()):
        raise UserError(f"--out {out}: must be a file {', '.join(_FORMATS)} in a folder that exists")
    if out and as_json:
        raise UserError("--json prints; with --out, write a .json")
    if model is None and (text is not None or kind is not None or layer or head):
        raise UserError("--text, --kind, --layer and --head act on a model; add --model DIR")
    if topic is None:
        if model or out or as_json:
            raise UserError("say what is to be explained: `regard explain` lists the topics")
        say(listed())
        return
    chosen = topic_named(topic)
    worked = chosen.own(ModelInput.load(model, text, kind, layer, head)) if model else chosen.lecture()
    if out:
        _write(worked, out)
        say(str(out))
        return
    with quiet_if_reader_leaves():
        say(worked.to_json() if as_json else as_text(worked))


def _write(worked: "Explanation", out: Path) -> None:
    from regard.explain.plot import draw
    from regard.explain.render_html import as_page
    from regard.files import write_atomically

    if out.suffix == ".json":
        write_atomically(out, worked.to_json().encode())
    elif out.suffix == ".html":
        write_atomically(out, as_page(worked).encode())
    elif worked.picture is None:
        raise UserError(f"--out {out}: this topic has no picture; write a .html or .json")
    else:
        draw(worked.picture, out)
