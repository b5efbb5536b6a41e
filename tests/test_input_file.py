"""Which paths can be read as files."""

import os
import socket
from pathlib import Path

import pytest

from regard.config import read_yaml
from regard.errors import UserError
from regard.input_file import check_input_file


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
