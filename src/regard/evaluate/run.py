"""Evaluate a model directory on one test file, whatever its task is."""

from pathlib import Path

from regard.errors import UserError
from regard.evaluate.captioning import evaluate_captions
from regard.evaluate.classification import evaluate_labels
from regard.evaluate.language_model import evaluate_language_model
from regard.evaluate.result import TestResult
from regard.paths import check_input_file
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import load


def evaluate_model(
    folder: Path, path: Path, device: str | None = None, stride: int | None = None, regions: Path | None = None
) -> TestResult:
    """Evaluate the model in `folder` on the test file `path`.

    `stride` applies to language models, `regions` (gold regions) to captioners.
    """
    check_input_file(path)
    pipeline = load(folder, device=device)
    match pipeline:
        case Generator():
            return evaluate_language_model(pipeline, path, stride)
        case Classifier():
            return evaluate_labels(pipeline, path)
        case Captioner():
            return evaluate_captions(pipeline, path, regions)
    raise UserError("a translator is evaluated on two files: give SRC and REF")
