"""Verbs that judge models: evaluate."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import Device, ModelDir, app
from regard.cli.using import translator_in
from regard.errors import UserError


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
    translator = translator_in(folder, device=device)
    other = translator_in(baseline, device=device) if baseline else None
    evaluation = run_evaluation(translator, test_set, options, other, {"beam": beam} if beam else {})
    if output:
        write_atomically(output, "".join(line + "\n" for line in evaluation.hypotheses).encode())
    typer.echo(json.dumps(evaluation.to_json(), ensure_ascii=False, indent=2) if as_json else evaluation.to_text())
