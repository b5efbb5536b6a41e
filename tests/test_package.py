"""What is installed with the package beside its modules."""

import tomllib
from importlib.resources import files
from pathlib import Path

import regard

ROOT = Path(__file__).parents[1]


def test_type_checkers_see_the_annotations() -> None:
    assert (files("regard") / "py.typed").is_file()


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == regard.__version__


def test_torch_is_pinned_for_the_makefile() -> None:
    """`make` installs the CPU build of the version that constraints.txt names, so there must be exactly one line."""
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")]
    assert len(pins) == 1
