"""Labs: the questions that lectures on attention end with, each as a short experiment on a CPU.

`LABS[name].run(seed, quick)` is a function of the seed; the quick form is the same experiment with next to no training.
"""

from collections.abc import Callable
from dataclasses import dataclass

from regard.errors import UserError
from regard.labs import bottleneck, core, heads, positions, qkv, scaling, width
from regard.labs.result import LabResult


@dataclass(frozen=True)
class Lab:
    question: str
    run: Callable[[int, bool], LabResult]
    seconds: int
    """About how long it takes on two cores"""


LABS = {
    "core": Lab(core.QUESTION, core.run, 1),
    "positions": Lab(positions.QUESTION, positions.run, 50),
    "qkv": Lab(qkv.QUESTION, qkv.run, 15),
    "heads": Lab(heads.QUESTION, heads.run, 20),
    "scaling": Lab(scaling.QUESTION, scaling.run, 1),
    "width": Lab(width.QUESTION, width.run, 20),
    "bottleneck": Lab(bottleneck.QUESTION, bottleneck.run, 45),
}


def lab_named(name: str) -> Lab:
    if name not in LABS:
        raise UserError(f"lab '{name}' is unknown; choose one of {', '.join(LABS)}, or all")
    return LABS[name]
