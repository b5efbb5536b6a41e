"""The command line: each verb parses, calls the library and prints. Heavy imports wait until a verb runs."""

from regard.cli import (
    aligning,
    datasets,
    evaluating,
    explaining,
    judging,
    labs,
    looking,
    serving,
    training,
    translating,
    using,
)
from regard.cli.app import main

__all__ = [
    "aligning",
    "datasets",
    "evaluating",
    "explaining",
    "judging",
    "labs",
    "looking",
    "main",
    "serving",
    "training",
    "translating",
    "using",
]
