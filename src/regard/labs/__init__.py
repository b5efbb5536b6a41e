"""Labs: questions of the lectures on attention, each answered by a short experiment on a CPU.

The seed determines the result of a lab (except measured times). `quick` runs the same experiment with next to no
training.
"""

from collections.abc import Callable
from dataclasses import dataclass

from regard.errors import UserError
from regard.labs import bottleneck, core, far_positions, gradients, heads, positions, qkv, scaling, width
from regard.labs.result import LabResult
from regard.labs.training import Budget


@dataclass(frozen=True)
class Lab:
    question: str
    experiment: Callable[[int, Budget], LabResult]
    full: Budget
    quick: Budget
    seconds: int
    """Approximate duration of the full experiment on two cores."""

    def run(self, seed: int, quick: bool = False) -> LabResult:
        return self.experiment(seed, self.quick if quick else self.full)


LABS = {
    "core": Lab(core.QUESTION, core.run, core.FULL, core.QUICK, 1),
    "positions": Lab(positions.QUESTION, positions.run, positions.FULL, positions.QUICK, 50),
    "qkv": Lab(qkv.QUESTION, qkv.run, qkv.FULL, qkv.QUICK, 15),
    "heads": Lab(heads.QUESTION, heads.run, heads.FULL, heads.QUICK, 20),
    "scaling": Lab(scaling.QUESTION, scaling.run, scaling.FULL, scaling.QUICK, 1),
    "width": Lab(width.QUESTION, width.run, width.FULL, width.QUICK, 20),
    "bottleneck": Lab(bottleneck.QUESTION, bottleneck.run, bottleneck.FULL, bottleneck.QUICK, 45),
    "far-positions": Lab(far_positions.QUESTION, far_positions.run, far_positions.FULL, far_positions.QUICK, 75),
    "gradients": Lab(gradients.QUESTION, gradients.run, gradients.FULL, gradients.QUICK, 60),
}


def lab_named(name: str) -> Lab:
    if name not in LABS:
        raise UserError(f"lab '{name}' is unknown; choose one of {', '.join(LABS)}, or all")
    return LABS[name]


def run_lab(name: str, *, seed: int = 1, quick: bool = False) -> LabResult:
    """Run a lab, as `regard lab` does; notebooks show the result with its plot. `quick` hardly trains.

    >>> result = regard.run_lab("scaling")
    >>> result.question
    'Why must the dot product be scaled before the softmax?'
    >>> len(result.answer)  # sentences that quote the measured numbers of result.table
    3
    """
    return lab_named(name).run(seed, quick)
