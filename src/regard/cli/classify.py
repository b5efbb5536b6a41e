"""The verb classify."""

import json
from typing import TYPE_CHECKING

from regard.cli.app import (
    AsJson,
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
def classify(folder: ModelDir, text: Texts = None, as_json: AsJson = False, device: Device = None) -> None:
    """The label of each line of standard input."""
    from regard.pipelines.classifier import Classifier

    classifier = loaded(folder, Classifier, "classifier (--recipe classifier)", device)
    with quiet_if_reader_leaves():
        for found in classifier.classify(text or list(stdin_lines())):
            row = {"text": found.text, "label": found.label, "probabilities": found.probabilities}
            say(json.dumps(row, ensure_ascii=False) if as_json else found.label)
