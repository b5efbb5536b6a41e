"""The command line: each verb parses, calls the library and prints. Heavy imports wait until a verb runs."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from regard import __version__
from regard.errors import UserError

# OpenMP's threads spin while they wait. Where another program wants the cores too, that makes torch some fifteen
# times slower on two of them; sleeping costs next to nothing. It must be said before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

if TYPE_CHECKING:
    from regard.translator import Translation, Translator

# Typer brings Click along, under one name or another; what its parser raises is the base of this class.
UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    help="Train your own translator from two files of parallel text, and see why it says what it says.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …  [default: cuda if there is one]")]
ModelDir = Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `regard train --out` wrote.")]


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


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Where the run is written.  [default: runs/demo-DIRECTION]")] = None,
    direction: Annotated[str, typer.Option(help="en-fr or fr-en.")] = "en-fr",
) -> None:
    """The first five minutes: train on the built-in corpus, translate, draw an attention map."""
    from regard.demo import run_demo

    run_demo(out, direction)


@app.command(cls=TwoValidFiles)
def train(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="SRC TGT", help="Two line-aligned files (plain or .gz), or one .tsv or .jsonl."),
    ],
    out: Annotated[Path, typer.Option(help="The model directory to write.")],
    valid: Annotated[
        list[Path] | None,
        typer.Option(metavar="SRC TGT", help="Validation files; without them some training pairs are held out."),
    ] = None,
    recipe: Annotated[str, typer.Option(help="A named recipe: tiny, small, base …")] = "small",
    config: Annotated[Path | None, typer.Option(help="A YAML file laid over the recipe.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One option, e.g. train.lr=1e-3; repeatable."),
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option(metavar="SRC-TGT", help="Language codes, e.g. en-fr.  [default: from the file names]"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    allow_inexact: Annotated[bool, typer.Option("--allow-inexact", help="Resume on another machine or torch.")] = False,
    device: Device = None,
) -> None:
    """Train a translator on parallel text."""
    from regard.data.corpus import Corpus
    from regard.look.curves import draw_curves
    from regard.train.recipe import load_recipe
    from regard.train.run import Run
    from regard.train.run import train as run_training

    langs = _languages(languages, files)
    run = Run(
        recipe=load_recipe(recipe, config, set_ or ()),
        train=Corpus(tuple(files), langs if languages else None),
        valid=Corpus(tuple(valid), langs if languages else None) if valid else None,
        out=out,
        languages=langs,
        device=_device(device),
        resume=resume,
        allow_inexact=allow_inexact,
    )
    result = run_training(run)
    typer.echo(f"model:   {result.folder}")
    for path in draw_curves(result.folder):
        typer.echo(f"curves:  {path}")
    typer.echo(f'try it:  regard translate {result.folder} --text "…"')


@app.command()
def translate(
    folder: ModelDir,
    text: Annotated[
        list[str] | None, typer.Option(help="Translate this text instead of standard input; repeatable.")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Beam width; 1 is greedy.  [default: the model's, usually 5]")
    ] = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="So many translations a line, with their scores.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="α of the length normalisation.")] = None,
    max_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens at most.  [default: twice the source and ten]")
    ] = None,
    min_len: Annotated[int | None, typer.Option(min=0, help="Tokens at least.")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(min=0, help="No n-gram of this size twice.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Every translation starts with this text.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens at random instead of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(help="With --sample: above 1 is bolder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="With --sample: among the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="With --sample: among the likeliest that hold this probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="With --sample.")] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Another model that votes; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    device: Device = None,
) -> None:
    """Translate standard input, line by line, to standard output."""
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {key: value for key, value in sampling.items() if value is not None}
    if given and not sample:
        raise UserError(f"--{next(iter(given)).replace('_', '-')} only acts with --sample; add it")
    options = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_len": max_len,
        "min_len": min_len,
        "no_repeat_ngram": no_repeat_ngram,
        "sampling": given if sample else None,
    }
    options = {key: value for key, value in options.items() if value is not None}
    translator = _load(folder, *(ensemble or ()), device=device)
    if n_best and beam is None and not sample:
        options["beam"] = max(translator.config.beam, n_best)
    try:
        for translation in _translations(translator, text, prefix, options):
            _print(translation, bool(n_best), as_json)
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + signal.SIGPIPE) from None


@app.command()
def evaluate(
    folder: ModelDir,
    src: Annotated[Path, typer.Argument(metavar="SRC", help="Source sentences, one a line (plain or .gz).")],
    ref: Annotated[Path, typer.Argument(metavar="REF", help="Their reference translations.")],
    baseline: Annotated[
        Path | None, typer.Option(metavar="DIR2", help="A second model; adds a paired bootstrap test.")
    ] = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer; none for tokenised text.")] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Case-insensitive BLEU.")] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width.  [default: the model's]")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the translations to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = None,
) -> None:
    """Score a model on a test set: BLEU, chrF and TER by sacreBLEU, and BLEU by length."""
    from regard.files import write_atomically
    from regard.train.evaluate import evaluate as run_evaluation
    from regard.train.evaluate import read_test_set
    from regard.train.scores import ScoreOptions

    if output and not output.parent.is_dir():
        raise UserError(f"--output {output}: there is no folder {output.parent}")
    options = ScoreOptions(tokenize, lowercase)
    test_set = read_test_set(src, ref)
    translator = _load(folder, device=device)
    other = _load(baseline, device=device) if baseline else None
    evaluation = run_evaluation(translator, test_set, options, other, {"beam": beam} if beam else {})
    if output:
        write_atomically(output, "".join(line + "\n" for line in evaluation.hypotheses).encode())
    typer.echo(json.dumps(evaluation.to_json(), ensure_ascii=False, indent=2) if as_json else evaluation.to_text())


@app.command()
def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A directory that `regard train` wrote.")],
    last: Annotated[int | None, typer.Option(min=1, help="Mean of the last so many checkpoints.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="Mean of the best so many by validation BLEU.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the model.  [default: RUN itself]")] = None,
) -> None:
    """Replace a run's weights by the mean of its checkpoints."""
    from regard.train.average import average_run

    if (last is None) == (best is None):
        raise UserError("say --last K or --best K")
    steps = average_run(run, "last" if last else "best", last or best or 1, out or run)
    typer.echo(f"{out or run}: mean of the checkpoints at steps {', '.join(str(step) for step in steps)}")


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main() -> None:
    """The console script: a user's mistake is one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _fail(str(error))
    except UsageError as error:
        _fail(error.format_message())
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        _leave_if_stopped(error)
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    line = " ".join(message.split())
    print(f"regard: {line}", file=sys.stderr)
    sys.exit(2)


def _leave_if_stopped(error: Exception) -> None:
    from regard.train.stop import Stopped

    if isinstance(error, Stopped):
        print(f"regard: saved at step {error.step}; the same command with --resume goes on", file=sys.stderr)
        sys.exit(128 + error.signal_number)


def _load(*folders: Path, device: str | None) -> "Translator":
    from regard.translator import load

    return load(*folders, device=_device(device))


def _device(name: str | None) -> str | None:
    import torch

    if name is None:
        return None
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError):
        raise UserError(f"--device {name}: no such device here; leave it out to use what there is") from None
    return name


def _languages(given: str | None, files: list[Path]) -> tuple[str, str]:
    """From --languages en-fr, or from names such as train.en and train.fr.gz."""
    if given:
        src, separator, tgt = given.partition("-")
        if not separator:
            raise UserError(f"--languages {given}: write it as en-fr")
        return src, tgt
    suffixes = [Path(path.name.removesuffix(".gz")).suffix.removeprefix(".") for path in files]
    if len(suffixes) == 2 and all(2 <= len(s) <= 3 and s.isalpha() for s in suffixes) and len(set(suffixes)) == 2:
        return suffixes[0], suffixes[1]
    return "src", "tgt"


def _translations(
    translator: "Translator", texts: list[str] | None, prefix: str | None, options: dict[str, Any]
) -> Iterator["Translation"]:
    lines: Iterator[str] = iter(texts) if texts else _stdin_lines()
    # A person at a terminal waits for each line; a file is quicker in larger batches.
    n_lines = 1 if not texts and sys.stdin is not None and sys.stdin.isatty() else 256
    yield from translator.stream(lines, n_lines, prefix=prefix, **options)


def _stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise UserError("there is no standard input; give --text")
    for raw in sys.stdin.buffer:
        yield raw.decode("utf-8", errors="replace").rstrip("\r\n")


def _print(translation: "Translation", scores: bool, as_json: bool) -> None:
    if as_json:
        best = [{"text": h.text, "score": h.score, "tokens": h.tokens} for h in translation.hypotheses]
        row = {"source": translation.source, "source_tokens": translation.source_tokens, "hypotheses": best}
        line = json.dumps(row, ensure_ascii=False)
    elif scores:
        line = "\n".join(f"{h.score:.4f}\t{h.text}" for h in translation.hypotheses)
    else:
        line = translation.text
    sys.stdout.buffer.write(f"{line}\n".encode())  # UTF-8, as the input, whatever the terminal's locale says
    sys.stdout.buffer.flush()
