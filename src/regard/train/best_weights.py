"""The weights that a run keeps: those of its best checkpoint, or a mean of several."""

from regard.errors import UserError
from regard.evaluate.validation import Validation
from regard.models.weights import replace_weights, trained_weights
from regard.train.average import average_checkpoints
from regard.train.checkpoint import Checkpoints
from regard.train.trainer import Trainer


def load_best_weights(trainer: Trainer) -> tuple[str, Validation]:
    """Load the weights that validate best, of the best checkpoint or of the mean that the recipe names.

    Returns a description of the weights and their validation.
    """
    config, checkpoints = trainer.config, _undamaged(trainer)
    trainer.ema = None  # the loaded weights are already averaged
    best = checkpoints.best(1)
    choices = {f"the checkpoint of step {best[0].step}": best}
    if config.average != "none":
        chosen = checkpoints.last(config.average_k) if config.average == "last" else checkpoints.best(config.average_k)
        choices[f"the mean of the {len(chosen)} {config.average} checkpoints"] = chosen
    candidates = []
    for name, group in choices.items():
        weights = average_checkpoints(group)
        replace_weights(trained_weights(trainer.model), weights, name)
        candidates.append((trainer.validate(), name, weights))
    validation, name, weights = max(candidates, key=lambda candidate: candidate[0].order)
    replace_weights(trained_weights(trainer.model), weights, name)
    return name, validation


def _undamaged(trainer: Trainer) -> Checkpoints:
    """Return the checkpoints of a run without damaged ones, which are named."""
    problems, damaged = trainer.checkpoints.damaged(), set()
    for checkpoint in trainer.checkpoints.all():
        try:
            checkpoint.tensors()
            trainer.check_same_data(checkpoint)
        except UserError as error:
            problems.append(str(error))
            damaged.add(checkpoint.step)
    for problem in problems:
        trainer.log.info(f"not used: {problem}")
    checkpoints = trainer.checkpoints.without(damaged)
    if not checkpoints.best(1):
        raise UserError(f"{checkpoints.folder}: no validated checkpoint can be used; restore one, or train again")
    return checkpoints
