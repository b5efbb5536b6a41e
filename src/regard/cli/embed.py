"""The verb embed."""

import json
from typing import TYPE_CHECKING

from regard.cli.app import (
    Device,
    ModelDir,
    app,
    quiet_if_reader_leaves,
    say,
    stdin_lines,
)
from regard.cli.pipeline import Texts, loaded

if TYPE_CHECKING:
    pass


@app.command()
def embed(folder: ModelDir, text: Texts = None, device: Device = None) -> None:
    """Each line of standard input as a vector: a JSON list a line."""
    from regard.pipelines.classifier import Classifier

    encoder = loaded(folder, Classifier, "encoder (--recipe bert)", device)
    with quiet_if_reader_leaves():
        for vector in encoder.embed(text or list(stdin_lines())):
            say(json.dumps([round(float(x), 6) for x in vector]))
