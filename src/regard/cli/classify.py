"""`regard classify`: texts in, labels out."""

import json

from regard.cli.app import app
from regard.cli.input import input_chunks
from regard.cli.options import DeviceOption, JsonLinesOption, ModelDirArgument, TextOption
from regard.cli.output import print_line, warn_about_long_texts
from regard.cli.pipeline import load_kind


@app.command()
def classify(
    folder: ModelDirArgument, text: TextOption = None, as_json: JsonLinesOption = False, device: DeviceOption = None
) -> None:
    """Print the label of each line of standard input."""
    from regard.pipelines.classifier import Classifier

    classifier = load_kind(folder, Classifier, device)
    n_long = 0
    for texts in input_chunks(text):
        n_long += classifier.count_long(texts)
        for result in classifier.classify(texts):
            row = {"text": result.text, "label": result.label, "probabilities": result.probabilities}
            print_line(json.dumps(row, ensure_ascii=False) if as_json else result.label)
    warn_about_long_texts(n_long, classifier.length_limit().tokens)
