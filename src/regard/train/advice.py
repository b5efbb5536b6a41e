"""What would give a better model, from the validations of a run."""

from collections.abc import Sequence
from typing import NamedTuple

_RECENT = 3  # validations that show whether a run still improves
_GAIN = 0.5  # BLEU
_RISE = 1.02  # of the loss, relative to its minimum


class ValidationPoint(NamedTuple):
    """A validation of a translator"""

    loss: float
    bleu: float


def advise(points: Sequence[ValidationPoint], steps: int) -> str:
    """Return one line of advice after a run of at most `steps` updates; empty if there were few validations."""
    if len(points) <= _RECENT:
        return ""
    before = max(point.bleu for point in points[:-_RECENT])
    if max(point.bleu for point in points[-_RECENT:]) > before + _GAIN:
        return f"BLEU was still rising at the end: more updates would help, for example --set train.steps={2 * steps}"
    if points[-1].loss > _RISE * min(point.loss for point in points):
        return "the model has begun to learn the training data by heart: more sentence pairs would help most"
    return "more updates would hardly help; more sentence pairs would"
