"""`regard distill`: a small, fast student learns from the translations of its teachers."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.option_groups import with_option_groups
from regard.cli.options import EngineOption, ToOption, ValidOption, ValidPairCommand
from regard.cli.output import ProgressLine, continue_by_same_command, print_line, print_warning
from regard.cli.synthetic_options import StepTrainingOptions, SynthesisOptions
from regard.cli.worker_options import WorkerOptions
from regard.errors import UserError

TeachersArgument = Annotated[
    list[Path],
    typer.Argument(metavar="TEACHER…", help="One or more models; those that share a tokenizer form an ensemble."),
]
DataOption = Annotated[
    list[Path],
    typer.Option(
        metavar="SRC TGT", help="What the teachers translate: files of pairs, or one text of the source language."
    ),
]
OutOption = Annotated[Path, typer.Option(metavar="DIR", help="The model directory of the student.")]
KeepOriginalOption = Annotated[
    bool, typer.Option("--keep-original", help="Train the student on the original pairs too.")
]
BestOfOption = Annotated[
    int, typer.Option(min=1, help="Of the N best translations, take the one most similar to the reference (chrF).")
]
RecipeOption = Annotated[
    str, typer.Option(help="The recipe of the student; auto takes its length of training from the data.")
]


class DistillCommand(ValidPairCommand):
    """A command whose --data and --valid take the two files of a pair, or one file."""

    pair_options = ("--data", "--valid")


@app.command(cls=DistillCommand)
@with_option_groups
def distill(
    teachers: TeachersArgument,
    data: DataOption,
    out: OutOption,
    valid: ValidOption = None,
    to: ToOption = None,
    keep_original: KeepOriginalOption = False,
    best_of: BestOfOption = 1,
    recipe: RecipeOption = "student",
    training: StepTrainingOptions = StepTrainingOptions(),
    options: SynthesisOptions = SynthesisOptions(),
    workers: WorkerOptions = WorkerOptions(),
    engine: EngineOption = "torch",
) -> None:
    """Train a fast student on the translations of its teachers.

    The student has a deep encoder, a decoder of one layer, and the width and tokenizer of its teacher. The same
    command continues a job that was stopped.
    """
    from regard.synthetic.distillation import Distillation

    if len(data) > 2:
        raise UserError(f"--data: give SRC TGT or one file, not {len(data)} files")
    job = Distillation(
        tuple(teachers),
        tuple(data),
        out,
        tuple(valid) if valid else None,
        keep_original=keep_original,
        best_of=best_of,
        training=training.training(recipe),
        search=options.search(to),
        filter=options.filter(),
        part_lines=workers.lines(),
        workers=workers.choose(training.device),
        engine=engine,
    )
    with continue_by_same_command(), ProgressLine("lines", log=True) as progress:
        result = job.run(progress, print_warning)
    for pairs in result.pairs:
        for line in pairs.describe():
            print_line(line)
    print_line(f"validation BLEU of the student: {result.student.bleu:.2f}")
    print_line(f"model:   {out}")
