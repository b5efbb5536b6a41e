"""One process at a time may write to a folder."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard import lock
from regard.errors import UserError
from regard.lock import lock_folder

HOLD = """
import sys, time
from pathlib import Path
from regard.lock import lock_folder
with lock_folder(Path(sys.argv[1]), print):
    print("locked", flush=True)
    time.sleep(60)
"""


def quiet(line: str) -> None:
    pass


def holder(folder: Path) -> "subprocess.Popen[str]":
    """Start a process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "locked\n"
    return process


def test_a_second_process_is_refused_and_told_who_is_the_first(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with pytest.raises(UserError, match=f"in use by process {process.pid} on "), lock_folder(tmp_path, quiet):
        pass
    process.kill()
    process.communicate()
    assert (tmp_path / ".lock").exists()
    with lock_folder(tmp_path, quiet):  # at once: the lock of a killed process does not count
        pass
    assert not (tmp_path / ".lock").exists()


def foreign_lock(folder: Path) -> None:
    (folder / ".lock").write_text(json.dumps({"host": "elsewhere", "pid": 7, "since": "today", "token": "x"}))


def test_a_lock_of_another_host_counts_while_it_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that keeps the operating system's locks to one host"""
    monkeypatch.setattr(lock, "_BEAT", 0.1)
    monkeypatch.setattr(lock, "_PATIENCE", 0.5)
    foreign_lock(tmp_path)
    touch = "import os, sys, time\nwhile True: os.utime(sys.argv[1]); time.sleep(0.05)"
    alive = subprocess.Popen([sys.executable, "-c", touch, str(tmp_path / ".lock")])
    time.sleep(0.3)
    with pytest.raises(UserError, match="process 7 on elsewhere"), lock_folder(tmp_path, quiet):
        pass
    alive.kill()
    alive.wait()
    lines: list[str] = []
    with lock_folder(tmp_path, lines.append):
        pass
    assert len(lines) == 1 and "waiting" in lines[0]


def test_without_locks_of_the_operating_system_a_touched_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_BEAT", 0.1)
    monkeypatch.setattr(lock, "_PATIENCE", 0.5)
    monkeypatch.setattr(lock, "fcntl", None)
    refused = pytest.raises(UserError, match=f"process {os.getpid()}")
    with lock_folder(tmp_path, quiet), refused, lock_folder(tmp_path, quiet):
        pass
    assert not (tmp_path / ".lock").exists()


def test_a_process_that_lost_its_lock_may_not_write(tmp_path: Path) -> None:
    with lock_folder(tmp_path, quiet) as mine:
        mine.check()
        foreign_lock(tmp_path)
        with pytest.raises(UserError, match="another process has taken over"):
            mine.check()
    assert (tmp_path / ".lock").exists(), "it belongs to the other process"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\x00", b"[" * 100_000])
def test_a_damaged_lock_file_is_no_obstacle(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_bytes(content)
    with lock_folder(tmp_path, quiet) as lock:
        lock.check()
    assert not (tmp_path / ".lock").exists()


def test_a_folder_that_cannot_be_locked_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(UserError, match="cannot be written"), lock_folder(tmp_path, quiet):
        pass
