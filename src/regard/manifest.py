"""manifest.json: the sizes and SHA-256 checksums of a folder's files, and facts about them.

The manifest has a checksum of its own, so that a change of any of it is noticed. Model directories, checkpoints and
cached corpora have one.
"""

import hashlib
import json
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import write_atomically
from regard.verified_files import remember_verified, was_verified

MANIFEST = "manifest.json"


class DamagedFile(UserError):
    """A file that is missing, or not as it was when its folder was written."""


@dataclass(frozen=True)
class Checksum:
    """Size and SHA-256 of a file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> "Checksum":
        return cls(len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> "Checksum":
        check_regular(path)
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
                return cls(file.tell(), digest.hexdigest())
        except OSError as error:
            raise DamagedFile(f"{path}: cannot be read ({error.strerror})") from None


@dataclass(frozen=True)
class Manifest:
    """The checksums of files by their names, and other facts that are protected with them."""

    files: Mapping[str, Checksum]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_folder(cls, folder: Path, names: Iterable[str], **facts: Any) -> "Manifest":
        """Return a manifest of files that are in a folder now."""
        return cls({name: Checksum.of_file(folder / name) for name in names}, facts)

    def to_bytes(self) -> bytes:
        files = {name: {"size": c.size, "sha256": c.sha256} for name, c in sorted(self.files.items())}
        tree = {**self.facts, "files": files}
        return (json.dumps({**tree, "checksum": _checksum(tree)}, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes, where: Path) -> "Manifest":
        try:
            tree = json.loads(content)
            if tree.pop("checksum") != _checksum(tree):
                raise ValueError
            files = {str(name): Checksum(int(c["size"]), str(c["sha256"])) for name, c in tree.pop("files").items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DamagedFile(f"{where}: damaged") from None
        return cls(files, tree)

    def write(self, folder: Path) -> None:
        write_atomically(folder / MANIFEST, self.to_bytes())

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        path = folder / MANIFEST
        return cls.from_bytes(read_regular(path), path)

    def check_file(self, name: str, path: Path) -> None:
        """Raise DamagedFile if `path` does not hold the file `name` as it was written."""
        expected = self.files[name]
        if was_verified(path, expected.sha256):
            return
        found = Checksum.of_file(path)
        if found.size != expected.size:
            raise DamagedFile(f"{path}: has {found.size:,} bytes, but {expected.size:,} were written")
        if found.sha256 != expected.sha256:
            raise DamagedFile(f"{path}: changed or damaged since it was written (SHA-256 differs)")
        remember_verified(path, expected.sha256)

    def check(self, folder: Path) -> None:
        """Raise DamagedFile if a file of the folder is not as it was written."""
        for name in self.files:
            self.check_file(name, folder / name)


def check_regular(path: Path) -> None:
    """Raise DamagedFile unless there is a file at `path`: reading a pipe or device might never end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise DamagedFile(f"{path}: {'missing' if isinstance(error, FileNotFoundError) else error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise DamagedFile(f"{path}: {'a folder' if stat.S_ISDIR(mode) else 'a device or pipe'}, not a file")


def read_regular(path: Path) -> bytes:
    """Return the content of a file; raise DamagedFile if there is none or it cannot be read."""
    check_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read ({error.strerror})") from None


def _checksum(tree: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON tree, whatever its white space and order of keys."""
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
