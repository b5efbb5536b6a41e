"""Evaluate a model that is not a translator on one test file, whatever its task is."""

from pathlib import Path

from regard.evaluate.captioning import evaluate_captions
from regard.evaluate.classification import evaluate_labels
from regard.evaluate.language_model import evaluate_language_model
from regard.evaluate.result import TestResult
from regard.paths import check_input_file
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator


def evaluate_on_file(
    pipeline: Generator | Classifier | Captioner, path: Path, stride: int | None = None, regions: Path | None = None
) -> TestResult:
    """Evaluate a model on the test file `path`.

    `stride` applies to language models, `regions` (gold regions) to captioners.
    """
    check_input_file(path)
    match pipeline:
        case Generator():
            return evaluate_language_model(pipeline, path, stride)
        case Classifier():
            return evaluate_labels(pipeline, path)
        case Captioner():
            return evaluate_captions(pipeline, path, regions)
