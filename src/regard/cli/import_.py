"""`regard import`: a model of another program as a model directory. (`import` itself cannot name a module.)"""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.options import parse_languages
from regard.cli.output import print_line


@app.command("import")
def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder with config.json and safetensors, or Marian's .npz file.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The model directory to write; must not exist.")],
    languages: Annotated[
        str | None,
        typer.Option(metavar="SRC-TGT", help="Language codes of a translator.  [default: from the model's files]"),
    ] = None,
) -> None:
    """Import a model: OPUS-MT (Marian), GPT-2, Llama or BERT."""
    from regard.convert.import_model import import_model

    result = import_model(folder, out, parse_languages(languages))
    print_line(f"{result.path}: {result.describe()}")
    print_line(f"try it:  {result.example}")
