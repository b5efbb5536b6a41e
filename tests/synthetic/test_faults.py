"""The commands that translate in parts are killed ten times each, and end with the same files."""

import subprocess
import sys
from pathlib import Path

from tests.cli.command import environment

SCRIPT = Path(__file__).parents[2] / "bench" / "faults" / "synthetic.py"


def test_jobs_that_are_killed_ten_times_end_with_the_same_files() -> None:
    command = [sys.executable, SCRIPT, "--n", "40", "--no-curves"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for verb in ("translate", "backtranslate", "rounds", "distill"):
        assert f"| {verb} | 10 | 10 |" in done.stdout
