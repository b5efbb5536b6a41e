"""Suggested translations, stored as lines of JSON."""

import errno
import fcntl
import json
import os
import stat
from pathlib import Path

from regard.errors import UserError

_MAX_BYTES = 64 << 20


class SuggestionFileFull(Exception):
    """The file has reached its largest size."""


class SuggestionFile:
    """A file to which lines are appended as a whole, also by several processes."""

    def __init__(self, path: Path, max_bytes: int = _MAX_BYTES) -> None:
        self.path = path
        self.max_bytes = max_bytes

    def check(self) -> None:
        """Refuse a path that cannot be written."""
        try:
            os.close(self._open())
        except OSError as error:
            raise UserError(
                f"--suggestions {self.path}: cannot be written ({error.strerror}); choose another"
            ) from None

    def append(self, record: dict[str, str]) -> None:
        """Append a record, and return when it is on the disk; otherwise raise OSError."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size + len(line) >= self.max_bytes:
                raise SuggestionFileFull
            if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a line that was cut off by a full disk, say
                line = b"\n" + line
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        """Open the file to append to it. What others could read or replace, such as a device or a link, is refused."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(0, "not a file")
        return descriptor
