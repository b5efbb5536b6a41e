"""`regard embed`: texts in, vectors out."""

import json

from regard.cli.app import app
from regard.cli.input import input_chunks
from regard.cli.options import DeviceOption, ModelDirArgument, TextOption
from regard.cli.output import print_line, warn_about_long_texts
from regard.cli.pipeline import load_any
from regard.errors import UserError


@app.command()
def embed(folder: ModelDirArgument, text: TextOption = None, device: DeviceOption = None) -> None:
    """Print a vector for each line of standard input, as a JSON list.

    Takes a model with an encoder: a classifier, a masked language model or a translator.
    """
    from regard.pipelines.text_embedder import TextEmbedder

    encoder = load_any(folder, device)
    if not isinstance(encoder, TextEmbedder):
        raise UserError(f"{folder}: this is a {encoder.noun}; embed takes a classifier or a translator")
    n_long = 0
    for texts in input_chunks(text):
        n_long += encoder.count_long(texts)
        for vector in encoder.embed(texts):
            print_line(json.dumps([round(float(x), 6) for x in vector]))
    warn_about_long_texts(n_long, encoder.length_limit().tokens)
