"""The trained toy model of the command line's tests."""

from tests.cli.conftest import toy_run

__all__ = ["toy_run"]
