"""`regard train`: train a model on files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.options import (
    ConfigOption,
    DeviceOption,
    LanguagesOption,
    SetOption,
    ValidOption,
    ValidPairCommand,
    parse_languages,
)
from regard.cli.pipeline import check_device
from regard.errors import UserError

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        help="Translation: two line-aligned files, or one file of pairs (.tsv, .csv, .jsonl, .tmx, .xlf, .zip, "
        ".parquet); plain, .gz, .xz or .zst; or a folder of Parquet files, of Hugging Face datasets or of "
        "`regard data prepare`. Language models: text files. Classifiers: a TSV file of text and label. Captioners: "
        "a TSV file of image file and caption.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Instead of FILES: a YAML file of several corpora, with shares and stages."),
]
OutOption = Annotated[Path, typer.Option(help="The model directory to write.")]
RecipeOption = Annotated[
    str, typer.Option(help="auto: chosen by your data and machine; or a named recipe: small, base, rnn-dot, gpt …")
]
MinutesOption = Annotated[
    float | None, typer.Option(min=0.1, help="With the recipe auto: the time that training may take.")
]
AlignmentsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Word alignments of the pairs (lines such as 0-0 1-2); one head learns to follow them. Needed for "
        "glossary.share.",
    ),
]
InitOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Start from this model; its tokenizer is kept if it suits the new text."),
]
NewTokenizerOption = Annotated[
    bool,
    typer.Option(
        "--new-tokenizer", help="With --init: train a new tokenizer; pieces that both have keep their vectors."
    ),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
AllowInexactOption = Annotated[
    bool, typer.Option("--allow-inexact", help="Allow --resume with another machine or torch version.")
]


@app.command(cls=ValidPairCommand)
def train(
    out: OutOption,
    files: FilesArgument = None,
    data: DataOption = None,
    valid: ValidOption = None,
    recipe: RecipeOption = "auto",
    minutes: MinutesOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    languages: LanguagesOption = None,
    alignments: AlignmentsOption = None,
    init: InitOption = None,
    new_tokenizer: NewTokenizerOption = False,
    resume: ResumeOption = False,
    allow_inexact: AllowInexactOption = False,
    device: DeviceOption = None,
) -> None:
    """Train a model on your files: by default, a translator."""
    from regard.data.mixture_file import read_mixture
    from regard.train.auto_recipe import AutoRecipe
    from regard.train.recipe import AUTO, load_recipe
    from regard.train.run import Run
    from regard.train.run import train as run_training
    from regard.train.tasks import get_task
    from regard.visualize.curves import draw_curves

    if (data is None) == (not files):
        raise UserError("name either the training files or, with --data, a YAML file of several corpora")
    settings = ["train.init_tokenizer=new"] if new_tokenizer else []
    settings += [*(set_ or ()), *([f"train.init={json.dumps(str(init))}"] if init else [])]
    if minutes is not None and recipe != AUTO:
        raise UserError(f"--minutes is for the recipe {AUTO}; with {recipe}, use --set train.seconds={60 * minutes:g}")
    auto = AutoRecipe(config, settings, minutes) if recipe == AUTO else None
    options = auto.load() if auto else load_recipe(recipe, config, settings)
    if new_tokenizer and options.train.init_tokenizer != "new":
        choice = f"train.init_tokenizer={options.train.init_tokenizer}"
        raise UserError(f"--new-tokenizer and {choice} contradict each other; leave one of them out")
    run = Run(
        recipe=options,
        auto=auto,
        train=tuple(files or ()),
        mixture=read_mixture(data) if data else None,
        valid=tuple(valid) if valid else None,
        out=out,
        languages=parse_languages(languages),
        alignments=alignments,
        device=check_device(device),
        resume=resume,
        allow_inexact=allow_inexact,
    )
    result = run_training(run)
    if result.rank:
        return
    typer.echo(f"model:   {result.folder}")
    for path in draw_curves(result.folder):
        typer.echo(f"curves:  {path}")
    to = f" --to {run.directions.targets[0]}" if len(run.directions.targets) > 1 else ""
    typer.echo(f"try it:  {get_task(run.recipe.task).example.replace('DIR', str(result.folder))}{to}")
