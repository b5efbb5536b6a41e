"""The verb train."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regard.cli.app import Device, app, checked_device
from regard.errors import UserError


class TwoValidFiles(TyperCommand):
    """Lets --valid take the two files of a pair, `--valid SRC TGT`, or one TSV or JSONL."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        expanded = list(args)
        for i in reversed([i for i, arg in enumerate(args) if arg == "--valid"]):
            first, second = ([*args[i + 1 :], "", ""])[:2]
            one_file = first.removesuffix(".gz").endswith((".tsv", ".jsonl"))
            if second and not second.startswith("-") and not one_file:
                expanded.insert(i + 2, "--valid")
        return super().parse_args(ctx, expanded)


@app.command(cls=TwoValidFiles)
def train(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="Pairs: two line-aligned files (plain or .gz), or one .tsv or .jsonl. Plain text: text files. "
            "Labels: a TSV of text and label. Captions: a TSV of picture and caption.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The model directory to write.")],
    valid: Annotated[
        list[Path] | None,
        typer.Option(metavar="SRC TGT", help="Validation files; without them some training pairs are held out."),
    ] = None,
    recipe: Annotated[str, typer.Option(help="A named recipe: tiny, small, base, rnn-dot, gpt, bert …")] = "small",
    config: Annotated[Path | None, typer.Option(help="A YAML file laid over the recipe.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One option, e.g. train.lr=1e-3; repeatable."),
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option(metavar="SRC-TGT", help="Language codes, e.g. en-fr.  [default: from the file names]"),
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Word alignments of the pairs, lines of 0-0 1-2, that one head learns to follow."
        ),
    ] = None,
    init: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Start from this model's tokenizer and weights.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    allow_inexact: Annotated[bool, typer.Option("--allow-inexact", help="Resume on another machine or torch.")] = False,
    device: Device = None,
) -> None:
    """Train a model: a translator on parallel text, or what the recipe says."""
    from regard.train.recipe import load_recipe
    from regard.train.run import Run
    from regard.train.run import train as run_training
    from regard.train.tasks import task_named
    from regard.visualize.curves import draw_curves

    run = Run(
        recipe=load_recipe(recipe, config, [*(set_ or ()), *([f"train.init={json.dumps(str(init))}"] if init else [])]),
        train=tuple(files),
        valid=tuple(valid) if valid else None,
        out=out,
        languages=_languages(languages),
        alignments=alignments,
        device=checked_device(device),
        resume=resume,
        allow_inexact=allow_inexact,
    )
    result = run_training(run)
    typer.echo(f"model:   {result.folder}")
    for path in draw_curves(result.folder):
        typer.echo(f"curves:  {path}")
    typer.echo(f"try it:  {task_named(run.recipe.task).example.replace('DIR', str(result.folder))}")


def _languages(given: str | None) -> tuple[str, str] | None:
    if given is None:
        return None
    src, separator, tgt = given.partition("-")
    if not separator:
        raise UserError(f"--languages {given}: write it as en-fr")
    return src, tgt
