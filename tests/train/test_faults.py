"""A small sweep of the experiments of bench/faults, which disturb real training runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment

FAULTS = Path(__file__).parents[2] / "bench" / "faults"


@pytest.mark.parametrize("experiment", ["kill.py --n 12 --exact", "corrupt.py --n 40"])
def test_disturbed_runs_end_as_undisturbed_ones(experiment: str) -> None:
    script, *options = experiment.split()
    command = [sys.executable, FAULTS / script, *options, "--recipes", "language-model", "--no-curves"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
