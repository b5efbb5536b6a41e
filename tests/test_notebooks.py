"""The notebooks run in their quick form, and are committed with their outputs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from regard.explain.lectures import LECTURES

ROOT = Path(__file__).parents[1]
NOTEBOOKS = [ROOT / "notebooks" / f"{lecture.name}.ipynb" for lecture in LECTURES]
_MAX_BYTES = 1_000_000


def test_all_notebooks_run_in_their_quick_form(tmp_path: Path) -> None:
    environment = {**os.environ, "REGARD_QUICK": "1", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, ROOT / "tests" / "run_notebooks.py", *NOTEBOOKS]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_with_outputs_and_nothing_of_the_machine(path: Path) -> None:
    assert path.stat().st_size < _MAX_BYTES
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    # Image data, which is random text, may contain anything.
    text = re.sub(r"base64,[\w+/=]+", "", "".join(str(output) for output in outputs if "image/png" not in str(output)))
    assert not re.search(r"/(root|work|home|Users|tmp|usr|opt)/", text)
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    pictures += [output for output in outputs if "data:image/png" in output.get("data", {}).get("text/html", "")]
    assert len(pictures) >= 3
