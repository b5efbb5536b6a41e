"""Files and folders that are written completely or not at all."""

import errno
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.files import delete_folder, new_file, new_folder, remove_leftovers, write_atomically

DEAD_PID = 2**22 + 1  # above the greatest PID that Linux gives


def temporaries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".tmp"))


def test_temporary_files_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    names = [".foo.tmp", ".tmp", ".a.b.tmp", ".x.123.tmp", ".x.host.123.tmp"]
    for name in names:
        (tmp_path / name).write_text("not ours")
        os.utime(tmp_path / name, (0, 0))
    remove_leftovers(tmp_path)
    assert temporaries(tmp_path) == sorted(names)


def test_unfinished_work_of_another_container_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers share a cache: the PID of one means nothing in the other."""
    with monkeypatch.context() as other_container:
        other_container.setattr(os, "getpid", lambda: DEAD_PID)
        other_container.setattr(socket, "gethostname", lambda: "other.example.org")
        unfinished = new_folder(tmp_path / "store")
        temporary = unfinished.__enter__()
    (temporary / "ids").write_bytes(b"1234")
    remove_leftovers(tmp_path)
    unfinished.__exit__(None, None, None)
    assert (tmp_path / "store" / "ids").read_bytes() == b"1234"


@pytest.mark.parametrize("host", ["this", "other"])
@pytest.mark.parametrize("days", [0, 8])
def test_leftovers_are_those_of_dead_processes_on_this_host_and_old_ones(
    host: str, days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dead_process:
        dead_process.setattr(os, "getpid", lambda: DEAD_PID)
        if host == "other":
            dead_process.setattr(socket, "gethostname", lambda: "other")
        killed = new_folder(tmp_path / "a")
        leftover = killed.__enter__()
    (leftover / "part").write_text("half of it")
    os.utime(leftover, (time.time() - days * 86_400,) * 2)
    remove_leftovers(tmp_path)
    assert leftover.exists() == (host == "other" and days == 0)


def test_unfinished_work_of_this_process_is_kept_and_of_an_earlier_one_with_its_pid_is_not(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a") as mine:
        # a container that restarts has the same host name and often the same PID, but another random part
        host_and_pid, token = mine.name.removesuffix(".tmp").rsplit(".", 1)
        earlier = tmp_path / f"{host_and_pid}.{'0' * 8}{token[8:]}.tmp"
        earlier.mkdir()
        remove_leftovers(tmp_path)
        assert mine.exists() and not earlier.exists()
    assert (tmp_path / "a").is_dir() and temporaries(tmp_path) == []


def test_two_writers_of_one_path_do_not_share_a_temporary(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a") as first, new_folder(tmp_path / "a") as second:
        assert first != second
        (first / "x").write_text("1")
        (second / "x").write_text("2")
    assert (tmp_path / "a" / "x").read_text() == "2", "the one that finishes first stays"


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(RuntimeError), new_file(path) as file:
        file.write(b"half of the n")
        raise RuntimeError
    assert path.read_bytes() == b"old" and temporaries(tmp_path) == []
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new" and temporaries(tmp_path) == []
    with pytest.raises(UserError, match="cannot be written"):
        write_atomically(tmp_path / "none" / "file", b"")


def test_a_file_system_that_cannot_flush_folders_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "file", b"x")
    with new_folder(tmp_path / "folder") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_bytes(b"y")
    assert (tmp_path / "folder" / "inner" / "file").read_bytes() == b"y"


def test_a_folder_that_is_being_deleted_is_there_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"x")
    monkeypatch.setattr("shutil.rmtree", lambda *args, **options: None)  # killed before it deletes anything
    delete_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    delete_folder(tmp_path / "folder")  # there is none


def test_with_exclusive_use_of_a_folder_all_leftovers_of_others_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other_host:
        other_host.setattr(socket, "gethostname", lambda: "other")
        other_host.setattr(os, "getpid", lambda: DEAD_PID)
        killed = new_folder(tmp_path / "a")
        leftover = killed.__enter__()
    with new_folder(tmp_path / "mine") as mine:
        remove_leftovers(tmp_path)
        assert leftover.exists()
        remove_leftovers(tmp_path, exclusive=True)
        assert not leftover.exists() and mine.exists()
