"""The command line: one file per verb, which reads its options, calls the library and prints the result."""

from importlib import import_module

from regard.cli.app import VERBS, main, verb_module

__all__ = ["main"]

for verb in VERBS:  # importing the file of a verb adds its command to the application
    import_module(f"regard.cli.{verb_module(verb)}")
