"""How far a run has come."""

from dataclasses import dataclass, replace

from regard.evaluate.validation import Validation, validation_order


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
    stale: int = 0
    """Validations since the best one"""
    validated: int = 0
    """Step of the most recent validation"""
    rank: float = float("-inf")
    """Its rank and loss"""
    loss: float = float("inf")
    seconds: float = 0.0
    """Training time, only counted if train.seconds limits it"""

    def after(self, validation: Validation) -> "Progress":
        """Return the progress after a validation of the current step."""
        rank, loss = validation.rank, validation.loss
        validated = replace(self, validated=self.step, rank=rank, loss=loss, stale=self.stale + 1)
        if validation.order <= validation_order(self.best, self.best_loss):
            return validated
        return replace(validated, stale=0, best=rank, best_loss=loss, best_step=self.step)
