"""Evaluation of classifiers: accuracy and macro F1."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from regard.data.parallel_corpus import Corpus
from regard.errors import UserError
from regard.evaluate.result import TestResult, describe_problems
from regard.pipelines.classifier import Classifier


def evaluate_labels(classifier: Classifier, path: Path) -> TestResult:
    """Classify the texts of a TSV (text, label) and compare with its labels."""
    with closing(Corpus((path,)).read()) as corpus:
        pairs = list(corpus)
    if not pairs:
        raise UserError(f"{path}: no line with a text and a label; write text, a tab and the label on each line")
    texts, labels = [text for text, _ in pairs], [label for _, label in pairs]
    predictions = [result.label for result in classifier.classify(texts)]
    return TestResult({"texts": len(pairs), **label_scores(labels, predictions)}, describe_problems(corpus.report))


def label_scores(labels: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """Return the accuracy and the macro F1, the mean over labels of F1 = 2 PR / (P + R), in per cent."""
    gold, predicted = np.asarray(labels), np.asarray(predictions)
    f1 = []
    for label in sorted(set(labels)):
        hits = int(((gold == label) & (predicted == label)).sum())
        f1.append(2 * hits / int((gold == label).sum() + (predicted == label).sum()))
    return {"accuracy": 100.0 * float((gold == predicted).mean()), "f1": 100.0 * float(np.mean(f1))}
