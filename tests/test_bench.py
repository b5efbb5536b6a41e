"""The benchmarks can be loaded; running them takes too long for a test."""

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.parametrize("path", sorted(BENCH.rglob("*.py")), ids=lambda path: str(path.relative_to(BENCH)))
def test_benchmarks_can_be_imported_and_say_what_they_measure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(path.parent)
    module = importlib.import_module(path.stem)
    assert module.__doc__, "a benchmark says in its docstring what it measures"
