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
    """Print a vector for each line, as a JSON list.

    Takes any model that reads text: a classifier, a language model or a translator with an encoder.
    """
    from regard.pipelines.text_embedder import TextEmbedder

    encoder = load_any(folder, device=device)
    if not isinstance(encoder, TextEmbedder):
        raise UserError(f"{folder}: this is a {encoder.noun}; embed takes a model that reads text")
    n_long = 0
    for texts in input_chunks(text):
        n_long += encoder.count_long(texts)
        for vector in encoder.embed(texts):
            print_line(json.dumps([round(float(x), 6) for x in vector]))
    warn_about_long_texts(n_long, encoder.length_limit().tokens)
