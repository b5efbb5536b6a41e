"""Which paths can be read, and which written, as files."""

import os
import socket
from pathlib import Path

import pytest

from regard.config import read_yaml
from regard.errors import UserError
from regard.paths import check_input_file, check_output_file


def test_files_and_pipes_can_be_read(tmp_path: Path) -> None:
    file, pipe, link = tmp_path / "file", tmp_path / "pipe", tmp_path / "link"
    file.write_text("")
    os.mkfifo(pipe)
    link.symlink_to(file)
    for path in (file, pipe, link):
        check_input_file(path)
    with pytest.raises(UserError, match="is a pipe, which can be read once only"):
        check_input_file(pipe, read_once=False)


def test_everything_else_is_refused_by_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for path, message in [
            ("none", "none: no such file"),
            (".", "is a folder"),
            ("/dev/null", "/dev/null: is a device"),
            ("/dev/zero", "/dev/zero: is a device"),
            ("socket", "is a socket"),
            ("x" * 300, r"cannot be read \(File name too long\)"),
            ("file/x", r"cannot be read \(Not a directory\)"),
            ("loop", "cannot be read"),
            ("a\0b", "NUL"),
        ]:
            with pytest.raises(UserError, match=message):
                check_input_file(Path(path))


def test_options_are_not_read_from_an_endless_device() -> None:
    with pytest.raises(UserError, match="is a device"):
        read_yaml(Path("/dev/zero"))


def test_only_files_can_be_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "file").write_text("")
    check_output_file(tmp_path / "file", "--out")
    check_output_file(tmp_path / "new", "--out")
    for path, message in [
        (Path("/dev/full"), "--out /dev/full: is a device"),
        (pipe, "is a pipe"),
        (tmp_path, "is a folder"),
        (Path("/"), "is a folder"),
        (tmp_path / "none" / "file", "there is no folder"),
    ]:
        with pytest.raises(UserError, match=message):
            check_output_file(path, "--out")
