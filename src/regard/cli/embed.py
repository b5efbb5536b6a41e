"""`regard embed`: texts in, vectors out."""

import json

from regard.cli.app import app
from regard.cli.input import input_texts
from regard.cli.options import DeviceOption, ModelDirArgument, TextOption
from regard.cli.output import exit_on_closed_pipe, print_line
from regard.cli.pipeline import load_kind


@app.command()
def embed(folder: ModelDirArgument, text: TextOption = None, device: DeviceOption = None) -> None:
    """Print a vector for each line of standard input, as a JSON list."""
    from regard.pipelines.classifier import Classifier

    encoder = load_kind(folder, Classifier, device)
    with exit_on_closed_pipe():
        for vector in encoder.embed(list(input_texts(text))):
            print_line(json.dumps([round(float(x), 6) for x in vector]))
