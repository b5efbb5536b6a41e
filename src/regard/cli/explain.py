"""`regard explain`: the computations of the lectures, step by step."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    target: Annotated[
        str | None, typer.Option(help="With --model: the reference.  [default: what the model generates]")
    ] = None,
    step: Annotated[int, typer.Option(min=0, help="With --model: the step of decoding, from 0.")] = 0,
    lecture: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="List a lecture's subjects: hse, purdue, hufs, usc or auckland."),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="With --lecture: work through its topics; so does --out FILE.html, on a page.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="A .html or .json file or, for topics with a plot, .png or .svg.  [default: the terminal]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Work through a computation of the lectures step by step.

    Uses the lecture's numbers or, with --model, those of your own model. --lecture lists all that belongs to a lecture.
    """
    from regard.explain.topics import list_topics

    check_out_file(out, _FORMATS)
    of_model = {"text": text, "kind": kind, "layer": layer, "head": head, "target": target, "step": step}
    if out and as_json:
        raise UserError("--json prints to the terminal; leave it out and write --out FILE.json instead")
    if model is None and any(value or value == "" for value in of_model.values()):
        names = ", ".join(f"--{name}" for name in of_model)
        raise UserError(f"{names} have no effect without --model; add --model DIR")
    if lecture is not None:
        if topic or as_json:
            raise UserError("--lecture takes neither a topic nor --json; leave them out")
        _explain_lecture(lecture, model, of_model, run, out)
    elif run:
        raise UserError("--run works through a lecture; add --lecture NAME")
    elif topic is not None:
        _explain_topic(topic, model, of_model, out, as_json)
    elif model or out or as_json:
        raise UserError("name a topic to explain; `regard explain` lists them")
    else:
        print_line(list_topics())


def _explain_topic(topic: str, model: Path | None, of_model: dict[str, Any], out: Path | None, as_json: bool) -> None:
    from regard.explain.render_text import render_text
    from regard.explain.topics import explain_topic

    explanation = explain_topic(topic, model, **of_model)
    if out:
        _write(explanation, out)
        print_line(str(out))
    else:
        print_line(explanation.to_json() if as_json else render_text(explanation))


def _explain_lecture(name: str, model: Path | None, of_model: dict[str, Any], run: bool, out: Path | None) -> None:
    """List the subjects of a lecture or, with `run` or `out`, work through its topics."""
    from regard.explain.lectures import find_lecture, list_subjects
    from regard.explain.model_input import ModelInput
    from regard.explain.render_html import render_lecture_html
    from regard.explain.render_text import render_lecture_text
    from regard.explain.worked_lecture import work_through
    from regard.files import write_atomically

    lecture = find_lecture(name)
    if out and out.suffix != ".html":
        raise UserError(f"--out {out}: a lecture is written as a page; name a .html file")
    if not (run or out):
        if model:
            raise UserError("--model has no effect on the list of subjects; add --run or --out FILE.html")
        print_line(list_subjects(lecture))
        return
    if model and not of_model["text"]:
        raise UserError('give the sentence that the model is to process: --text "…"')
    worked = work_through(lecture, ModelInput.load(model, **of_model) if model else None)
    if out:
        write_atomically(out, render_lecture_html(lecture.title, worked).encode())
        print_line(str(out))
        return
    for part in render_lecture_text(worked):
        print_line(part)


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
