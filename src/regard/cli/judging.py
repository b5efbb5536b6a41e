"""Verbs that judge models: evaluate, compare, bench."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import AsJson, Device, ModelDir, app, checked_device, say
from regard.cli.training import TwoValidFiles
from regard.cli.using import translator_in
from regard.errors import UserError

bench_app = typer.Typer(help="Measure the parts that models are made of.", rich_markup_mode=None)
app.add_typer(bench_app, name="bench")


@app.command()
def evaluate(
    folder: ModelDir,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SRC REF",
            help="Source sentences and their references, one a line (plain or .gz); for a language model a text, for "
            "a classifier a TSV of text and label, for a captioner a TSV of picture and caption.",
        ),
    ],
    baseline: Annotated[
        Path | None, typer.Option(metavar="DIR2", help="A second model; adds a paired bootstrap test.")
    ] = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer; none for tokenised text.")] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Case-insensitive BLEU.")] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width.  [default: the model's]")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the translations to this file.")] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="Language models: tokens between windows.  [default: the context]")
    ] = None,
    regions: Annotated[
        Path | None, typer.Option(help="Captions: gold regions, as `regard data shapes` writes them.")
    ] = None,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Score a model on a test set: BLEU, chrF and TER by sacreBLEU, or what its task is judged by."""
    from regard.files import write_atomically
    from regard.train.evaluate import evaluate as run_evaluation
    from regard.train.evaluate import read_test_set
    from regard.train.judge import judge
    from regard.train.scores import ScoreOptions

    if output and not output.parent.is_dir():
        raise UserError(f"--output {output}: there is no folder {output.parent}")
    options = ScoreOptions(tokenize, lowercase)
    two = {"--baseline": baseline, "--beam": beam, "--output": output, "--lowercase": lowercase}
    one = {"--stride": stride, "--regions": regions}
    idle = next((name for name, value in (two if len(files) == 1 else one).items() if value), None)
    if idle:
        raise UserError(f"{idle} does not act on {'one file' if len(files) == 1 else 'SRC and REF'}; leave it out")
    if len(files) == 1:
        judgement = judge(folder, files[0], checked_device(device), stride, regions)
        say(json.dumps(judgement.to_json(), indent=2) if as_json else judgement.to_text())
        return
    if len(files) != 2:
        raise UserError(f"expected SRC and REF, or one file, got {len(files)}")
    test_set = read_test_set(*files)
    translator = translator_in(folder, device=device)
    other = translator_in(baseline, device=device) if baseline else None
    evaluation = run_evaluation(translator, test_set, options, other, {"beam": beam} if beam else {})
    if output:
        write_atomically(output, "".join(line + "\n" for line in evaluation.hypotheses).encode())
    typer.echo(json.dumps(evaluation.to_json(), ensure_ascii=False, indent=2) if as_json else evaluation.to_text())


@app.command(cls=TwoValidFiles)
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Training pairs: two line-aligned files, or one .tsv or .jsonl."),
    ],
    test: Annotated[tuple[Path, Path], typer.Option(metavar="SRC TGT", help="Test pairs: two line-aligned files.")],
    recipes: Annotated[
        list[str],
        typer.Option(
            metavar="A,B,…", help="Named recipes or YAML files; tiny+model.positions=rotary is a variant of tiny."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write: a model directory each, and the tables.")],
    valid: Annotated[list[Path] | None, typer.Option(metavar="SRC TGT", help="Validation files.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(metavar="GOLD", help="Word alignments of the test pairs, lines of 0-0 1-2.")
    ] = None,
    updates: Annotated[int | None, typer.Option(min=1, help="Each model trains for so many updates.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Or for so many seconds.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of all recipes, or tiny:KEY=VALUE of one."),
    ] = None,
    lengths: Annotated[
        str, typer.Option(metavar="N,N,…", help="The longest source, in words, of each bucket but the last.")
    ] = "5,10,15,20",
    beam: Annotated[int, typer.Option(min=1, help="Beam width on the test set; 1 is greedy.")] = 1,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer.")] = "13a",
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Measure again what is finished (it trains no more).")
    ] = False,
    device: Device = None,
) -> None:
    """Train recipes on the same data under an equal budget, and test them: tables and a picture."""
    from regard.look.compare import Comparison, run_comparison, split_entrants
    from regard.look.contest import Test
    from regard.look.standings import save_standings
    from regard.train.stop import Stopped

    plan = Comparison(
        entrants=tuple(entrant for text in recipes for entrant in split_entrants(text)),
        train=tuple(files),
        valid=tuple(valid) if valid else None,
        test=Test(test, alignments, _rising(lengths, "--lengths"), beam, tokenize),
        out=out,
        updates=updates,
        seconds=seconds,
        settings=tuple(set_ or ()),
        device=checked_device(device),
        repeat=repeat,
    )
    try:
        rows = run_comparison(plan)
    except Stopped as stopped:
        typer.echo("regard: saved what was trained; the same command goes on", err=True)
        raise typer.Exit(128 + stopped.signal_number) from None
    _show(*save_standings(rows, out))
    if all("error" in row for row in rows):
        raise UserError(f"none of the models could be trained: {rows[0]['error']}")


@bench_app.callback()
def bench() -> None:
    """Measure the parts that models are made of."""


@bench_app.command()
def scaling(
    out: Annotated[Path, typer.Option(help="The folder for scaling.json, .png and .svg.")],
    lengths: Annotated[
        str, typer.Option(metavar="N,N,…", help="Lengths of the sequence.")
    ] = "64,128,256,512,1024,2048,4096,8192",
    max_seconds: Annotated[float, typer.Option(min=1, help="About so long in all.")] = 60,
    device: Device = None,
) -> None:
    """Time and memory of one layer against the length of the sequence: recurrent, attention, linear, state space."""
    from regard.look.scaling import measure_scaling, save_scaling

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be made a folder ({error.strerror})") from None
    curves = measure_scaling(_rising(lengths, "--lengths"), max_seconds, checked_device(device))
    _show(*save_scaling(curves, out))


def _show(text: str, paths: list[Path]) -> None:
    say("\n".join([text, "", *map(str, paths)]))


def _rising(text: str, option: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(numbers) != text.count(",") + 1 or numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise UserError(f"{option} {text}: give rising numbers between commas, for example 5,10,20")
    return tuple(numbers)
