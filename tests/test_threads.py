"""Threads: the limits of a container, and how long they spin."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard import threads


@pytest.mark.parametrize(("content", "expected"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 64)])
def test_the_quota_of_a_container_limits_the_cores(
    content: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(content)
    monkeypatch.setattr(threads, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(64))
    assert threads.usable_cores() == expected
    monkeypatch.setattr(threads, "_QUOTA", tmp_path / "missing")
    assert threads.usable_cores() == 64


@pytest.mark.parametrize("chosen", [{}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "7"}])
def test_importing_regard_limits_spinning_unless_the_user_has_chosen(chosen: dict[str, str]) -> None:
    code = (
        "import os, regard; print({k: v for k, v in os.environ.items() if k in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT')})"
    )
    result = subprocess.run([sys.executable, "-c", code], env=chosen, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(chosen or {"GOMP_SPINCOUNT": threads._SPINS})
