"""A pipeline can be used in a child process that was forked after it was used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUNDLE = Path(__file__).parents[1] / "bundles" / "format-1" / "transformer"

PROGRAM = """
import os, sys
import torch
import regard

def use():
    torch.softmax(torch.ones(1000, 1000), -1)  # large enough for two threads
    return translator.translate(["a cat"])[0].text

torch.set_num_threads(2)
translator = regard.load(sys.argv[1], device="cpu")
text = use()
child = os.fork()
if child == 0:
    os._exit(0 if use() == text else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_does_not_wait_for_the_threads_of_its_parent() -> None:
    command = [sys.executable, "-c", PROGRAM, str(BUNDLE)]
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "2"}, start_new_session=True) as process:
        try:
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
