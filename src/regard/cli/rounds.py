"""`regard rounds`: train with back-translation, in rounds."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.option_groups import with_option_groups
from regard.cli.options import LanguagesOption, PairFilesArgument, ValidOption, ValidPairCommand, parse_languages
from regard.cli.output import ProgressLine, continue_by_same_command, print_line, print_warning
from regard.cli.synthetic_options import StepTrainingOptions, SynthesisOptions
from regard.cli.worker_options import WorkerOptions

MonoTgtOption = Annotated[
    Path, typer.Option("--mono-tgt", metavar="TEXT", help="Text of the target language, one sentence per line.")
]
MonoSrcOption = Annotated[
    Path | None,
    typer.Option(
        "--mono-src",
        metavar="TEXT",
        help="Text of the source language, for the reverse models of later rounds.  [default: the sources of FILES]",
    ),
]
RoundsOption = Annotated[
    int, typer.Option("--rounds", min=1, max=100, help="How many; the same command with more adds to them.")
]
OutOption = Annotated[Path, typer.Option(metavar="DIR", help="The folder to write; the best model will be DIR/model.")]
BaselineOption = Annotated[
    bool, typer.Option("--baseline", help="Also train a model on FILES alone, as round 0, to compare with.")
]
UpsampleOption = Annotated[
    int,
    typer.Option(
        min=1, max=10_000, help="How many times each pair of FILES is seen per epoch; synthetic ones are seen once."
    ),
]
ContinueOption = Annotated[
    bool,
    typer.Option("--continue-models", help="Start each model from that of the round before instead of from scratch."),
]
RecipeOption = Annotated[str, typer.Option(help="The recipe of all models, as in `regard train`.")]


@app.command(cls=ValidPairCommand)
@with_option_groups
def rounds(
    files: PairFilesArgument,
    mono_tgt: MonoTgtOption,
    out: OutOption,
    mono_src: MonoSrcOption = None,
    n_rounds: RoundsOption = 2,
    valid: ValidOption = None,
    baseline: BaselineOption = False,
    upsample: UpsampleOption = 1,
    continue_models: ContinueOption = False,
    recipe: RecipeOption = "auto",
    training: StepTrainingOptions = StepTrainingOptions(),
    languages: LanguagesOption = None,
    options: SynthesisOptions = SynthesisOptions(),
    workers: WorkerOptions = WorkerOptions(),
) -> None:
    """Train with back-translated text, in rounds.

    In each round a reverse model translates the target-language text, and a forward model learns from FILES and from
    these pairs; the forward model in turn makes pairs for the next reverse model. The same command continues a job
    that was stopped.
    """
    from regard.synthetic.rounds import RoundsPlan, best_forward, run_rounds

    plan = RoundsPlan(
        tuple(files),
        tuple(valid) if valid else None,
        mono_tgt,
        out,
        source_text=mono_src,
        rounds=n_rounds,
        baseline=baseline,
        upsample=upsample,
        continue_models=continue_models,
        training=training.training(recipe),
        search=options.search(),
        filter=options.filter(),
        part_lines=workers.lines(),
        workers=workers.choose(training.device),
        languages=parse_languages(languages),
    )
    with continue_by_same_command(), ProgressLine("lines", log=True) as progress:
        results = run_rounds(plan, progress, print_warning)
    print_line("round  model    validation BLEU")
    for result in results:
        print_line(f"{result.round:5}  {result.direction:7}  {result.model.bleu:15.2f}")
    print_line(f"best model, of round {best_forward(results).round}: {out / 'model'}")
