"""The command line: each verb parses, calls the library and prints. Heavy imports wait until a verb runs."""

from regard.cli import datasets, judging, looking, training, using
from regard.cli.app import main

__all__ = ["datasets", "judging", "looking", "main", "training", "using"]
