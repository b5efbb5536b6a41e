"""Threads: the limits of a container, and passive waiting."""

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


@pytest.mark.parametrize(("set_before", "expected"), [("", "passive"), ("active", "active")])
def test_importing_regard_lets_threads_wait_passively_unless_the_user_has_chosen(
    set_before: str, expected: str
) -> None:
    code = "import os, regard; print(os.environ['OMP_WAIT_POLICY'])"
    environment = {"OMP_WAIT_POLICY": set_before} if set_before else {}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == expected
