"""A lock on a folder, so that only one process writes to it, on one machine or on several that share a disk.

The lock is the file `.lock`. The operating system's lock on it (flock) is released when its process ends in any way,
and works between machines on current network file systems. Where it does not, the lock file itself shows that its
process is alive: that process touches it every few seconds. Nothing is ever decided by comparing clocks.
"""

import errno
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import UserError
from regard.files import disk_error
from regard.manifest import DamagedFile, read_regular

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"

_BEAT = 5.0  # seconds between two signs of life
_PATIENCE = 4 * _BEAT  # without a sign of life for so long, a process is dead
_MOMENT = 0.2  # seconds in which a process that has just taken the lock has written its name
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass
class FolderLock:
    """A lock that this process holds."""

    path: Path
    descriptor: int
    token: str
    _released: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise a UserError if another process took the lock, because this one was suspended for a long time."""
        if not self._is_mine():
            raise UserError(
                f"{self.path.parent}: another process has taken over this folder while this one did not run; "
                "nothing was written"
            )

    def beat(self) -> None:
        """Touch the lock file until the lock is released."""
        while not self._released.wait(_BEAT):
            with suppress(OSError):
                if self._is_mine():
                    os.utime(self.descriptor)

    def release(self) -> None:
        self._released.set()
        with suppress(OSError):
            if self._is_mine():
                self.path.unlink()
        os.close(self.descriptor)  # which releases the lock of the operating system

    def _is_mine(self) -> bool:
        return _owner(self.path).get("token") == self.token


@contextmanager
def lock_folder(folder: Path, warn: Callable[[str], None] | None = None) -> Iterator[FolderLock]:
    """Hold the lock of a folder while the block runs; raise a UserError that names the process that holds it.

    `warn` is called with a line before a wait of some seconds; by default it is printed to stderr.
    """
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _take(path, warn or _print_warning)
    except OSError as error:
        raise disk_error(error, folder) from error
    heart = threading.Thread(target=lock.beat, daemon=True)
    heart.start()
    try:
        yield lock
    finally:
        lock.release()
        heart.join()


def _take(path: Path, warn: Callable[[str], None]) -> FolderLock:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            works = _lock_descriptor(descriptor, path)
            if _is_same_file(descriptor, path):
                _watch_owner(path, works, warn)
                return _write_owner(path, descriptor)
            os.close(descriptor)  # its owner has just deleted it
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise


def _lock_descriptor(descriptor: int, path: Path) -> bool:
    """Take the operating system's lock or raise a UserError; return False where the file system has none."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        time.sleep(_MOMENT)
        raise _in_use(path) from None
    return True


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _watch_owner(path: Path, trust_this_host: bool, warn: Callable[[str], None]) -> None:
    """Watch the lock file of a process that may be alive, and raise a UserError if that process touches it.

    If the operating system's lock works and was free, a process of this host is dead; one of another host is alive only
    if the file system keeps locks to one host.
    """
    owner = _owner(path)
    if not owner or (trust_this_host and owner.get("host") == socket.gethostname()):
        return
    warn(f"{path.parent}: was in use by {_describe(owner)}; waiting {_PATIENCE:.0f} s to see whether it still runs")
    before = path.stat().st_mtime_ns
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        time.sleep(_BEAT / 10)
        if _owner(path) != owner:
            return
        if path.stat().st_mtime_ns != before:
            raise _in_use(path)


def _write_owner(path: Path, descriptor: int) -> FolderLock:
    token = secrets.token_hex(8)
    owner = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "token": token,
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)
    return FolderLock(path, descriptor, token)


def _owner(path: Path) -> dict[str, object]:
    """Return who holds the lock; nothing if the file is empty, damaged or not there."""
    try:
        tree = json.loads(read_regular(path))
    except (DamagedFile, ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _in_use(path: Path) -> UserError:
    who = _describe(_owner(path))
    return UserError(f"{path.parent}: in use by {who}; wait until it has finished, or choose another folder")


def _describe(owner: dict[str, object]) -> str:
    return f"process {owner.get('pid', '?')} on {owner.get('host', '?')} since {owner.get('since', '?')}"


def _print_warning(line: str) -> None:
    print(f"regard: {line}", file=sys.stderr)
