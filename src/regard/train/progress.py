"""How far a run has come."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from regard.evaluate.validation import Validation, validation_order
from regard.manifest import DamagedFile


@dataclass(frozen=True)
class Progress:
    """The part of a run's state that is not tensors; checkpoints store it under these names."""

    step: int = 0
    """Updates made"""
    epoch: int = 0
    batch: int = 0
    """Position of the next batch in the stream"""
    best: float = float("-inf")
    """Rank, loss and step of the best validation"""
    best_loss: float = float("inf")
    best_step: int = 0
    lowest_loss: float = float("inf")
    """Lowest loss of all validations"""
    stale: int = 0
    """Validations since the rank or the loss was last better than ever before"""
    validated: int = 0
    """Step of the most recent validation"""
    rank: float = float("-inf")
    """Its rank and loss"""
    loss: float = float("inf")
    seconds: float = 0.0
    """Training time, only counted if train.seconds limits it"""
    parts: int = 1
    """Parts that every batch is split into, because a whole one did not fit into memory"""

    @classmethod
    def parse(cls, tree: Mapping[str, Any], where: str) -> "Progress":
        """Check what a checkpoint has stored; `where` is named in errors."""
        try:
            return TypeAdapter(cls).validate_python(tree)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise DamagedFile(f"{where}: progress.{name}: {first['msg']}") from None

    def after(self, validation: Validation) -> "Progress":
        """Return the progress after a validation of the current step."""
        rank, loss = validation.rank, validation.loss
        stale = 0 if loss < self.lowest_loss else self.stale + 1
        lowest = min(self.lowest_loss, loss) if loss == loss else self.lowest_loss  # NaN is not lower
        validated = replace(self, validated=self.step, rank=rank, loss=loss, stale=stale, lowest_loss=lowest)
        if validation.order <= validation_order(self.best, self.best_loss):
            return validated
        return replace(validated, stale=0, best=rank, best_loss=loss, best_step=self.step)
