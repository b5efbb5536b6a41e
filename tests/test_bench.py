"""The benchmarks can be loaded; running them takes too long for a test."""

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCH.glob("*.py")))
def test_benchmarks_can_be_imported_and_say_what_they_measure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    module = importlib.import_module(name)
    assert module.__doc__, "a benchmark says in its docstring what it measures"
