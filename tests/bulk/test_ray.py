"""A Ray cluster translates as one process does, also when one of its nodes is killed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.synthetic.conftest import random_lines, untrained_translator, write_lines

SCRIPT = Path(__file__).parents[2] / "bench" / "bulk_faults.py"


@pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")
def test_a_killed_node_changes_nothing(tmp_path: Path) -> None:
    model, text = untrained_translator(tmp_path / "model"), write_lines(tmp_path / "text.fr", random_lines(500))
    command = [sys.executable, SCRIPT, model, text, "--lines", "2000", "--part-lines", "25"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "identical files: 4 of 4; lines: 2,000 of 2,000" in done.stdout
