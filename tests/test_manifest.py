"""Checksums: no change of a file or of the manifest itself goes unnoticed."""

import os
import random
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.manifest import Checksum, DamagedFile, Manifest, read_regular


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(bytes(range(256)))
    (tmp_path / "b").write_bytes(b"")
    Manifest.of_folder(tmp_path, ["a", "b"], n=1.5, nothing=float("nan")).write(tmp_path)
    return tmp_path


def test_what_is_written_is_read(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert manifest.files == {"a": Checksum.of(bytes(range(256))), "b": Checksum.of(b"")}
    assert manifest.facts["n"] == 1.5
    manifest.check(folder)


def test_every_changed_byte_of_a_file_is_noticed(folder: Path) -> None:
    manifest = Manifest.read(folder)
    generator = random.Random(1)
    for place in range(256):
        content = bytearray(range(256))
        content[place] ^= 1 << generator.randrange(8)
        (folder / "a").write_bytes(content)
        with pytest.raises(DamagedFile, match="SHA-256 differs"):
            manifest.check(folder)


def test_missing_longer_and_shorter_files_are_named(folder: Path) -> None:
    manifest = Manifest.read(folder)
    (folder / "b").write_bytes(b"x")
    with pytest.raises(DamagedFile, match=r"b: has 1 bytes, but 0 were written"):
        manifest.check(folder)
    (folder / "b").unlink()
    with pytest.raises(DamagedFile, match="b: missing"):
        manifest.check(folder)


def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DamagedFile, match="a folder, not a file"):
        read_regular(tmp_path / "folder")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedFile, match="a device or pipe, not a file"):
        read_regular(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(DamagedFile, match="missing"):
        read_regular(tmp_path / "link")


def test_quick_verification_reads_a_file_once(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
    manifest, content = Manifest.read(folder), (folder / "a").read_bytes()
    stamp = (folder / "a").stat()
    monkeypatch.setenv("REGARD_VERIFY", "quick")
    manifest.check(folder)
    flipped = bytes([content[0] ^ 1]) + content[1:]
    (folder / "a").write_bytes(flipped)
    with pytest.raises(DamagedFile):
        manifest.check(folder)  # another time stamp
    os.utime(folder / "a", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    manifest.check(folder)  # the user asked to trust size and time stamp
    monkeypatch.setenv("REGARD_VERIFY", "full")
    with pytest.raises(DamagedFile):
        manifest.check(folder)
    monkeypatch.setenv("REGARD_VERIFY", "never")
    with pytest.raises(UserError, match="set it to full or quick"):
        manifest.check(folder)
