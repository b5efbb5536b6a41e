"""Write files and folders completely or not at all; where the cache is."""

import errno
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError

_SYNC_ATTEMPTS = 3
_OLD = 7 * 24 * 3600.0  # seconds after which nobody can still be writing a temporary

_PROCESS = secrets.token_hex(4)
"""Tells this process from an earlier one with the same host name and PID, as in a restarted container"""
_number = count()
_TEMPORARY = re.compile(r"\..*\.(?P<host>[\w-]+)\.(?P<pid>\d+)\.(?P<process>[0-9a-f]{8})-\d+\.tmp")


def cache_folder() -> Path:
    """Return $REGARD_CACHE, or the folder `regard` in the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard"
    return Path(os.environ.get("REGARD_CACHE", default))


def check_new(path: Path) -> None:
    """Raise a UserError unless a file or folder can be made at `path`: it is not there, but its folder is."""
    if path.exists():
        raise UserError(f"{path}: exists already; name another path, or delete it first")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.absolute().parent}; make it first")


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path`. A reader, or a crash, sees either the old or the new file."""
    with new_file(path) as file:
        file.write(content)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that is flushed to disk and renamed to `path` if the block succeeds, else deleted."""
    temporary = temporary_path(path)
    try:
        with temporary.open("wb") as file:
            yield file
        sync_file(temporary)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """Make a temporary folder that is flushed to disk and renamed to `path` if the block succeeds, else deleted.

    If `path` already exists, perhaps because another process was faster, it is kept unless `replace` is set.
    """
    temporary = temporary_path(path)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for entry in (*sorted(temporary.rglob("*")), temporary):
            (sync_folder if entry.is_dir() else sync_file)(entry)
        if replace:
            delete_folder(path)
        try:
            temporary.rename(path)
        except OSError as error:  # another process was faster
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        sync_folder(path.parent)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def delete_folder(path: Path) -> None:
    """Delete a folder, or a file in its place. After a crash it is there completely or not at all."""
    removed = temporary_path(path)
    try:
        path.rename(removed)
    except FileNotFoundError:
        return
    _delete(removed)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Return an unused name in the folder of `path`: `.NAME.HOST.PID.RANDOM.tmp`."""
    return path.with_name(f".{path.name}.{_host()}.{os.getpid()}.{_PROCESS}-{next(_number)}.tmp")


def remove_leftovers(folder: Path, exclusive: bool = False) -> None:
    """Delete temporary files and folders of killed processes.

    These are the temporaries of this host whose process is gone, and those of any host that are a week old; if this
    process has exclusive use of the folder, all of other processes. Files whose names were not made by
    `temporary_path` are left alone.
    """
    for path in folder.glob(".*.tmp"):
        if _is_leftover(path, exclusive):
            _delete(path)


def _is_leftover(path: Path, exclusive: bool) -> bool:
    name = _TEMPORARY.fullmatch(path.name)
    if name is None:
        return False
    if exclusive:
        return (int(name["pid"]), name["process"]) != (os.getpid(), _PROCESS)
    if name["host"] == _host() and not _is_running(int(name["pid"]), name["process"]):
        return True
    try:
        return time.time() - path.stat().st_mtime > _OLD
    except FileNotFoundError:  # renamed or deleted in the meantime
        return False


def _is_running(pid: int, process: str) -> bool:
    """Return whether the process of this host that made a temporary is still running."""
    if pid == os.getpid():
        return process == _PROCESS
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it exists and belongs to another user
    return True


def _host() -> str:
    """Return the host's name and, where there are PID namespaces, the number of this process's.

    Containers may share a host name and a folder while their PIDs mean nothing to each other.
    """
    name = re.sub(r"[^\w-]", "_", socket.gethostname()) or "localhost"
    try:
        return f"{name}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return name


def sync_file(path: Path) -> None:
    """Flush a file to disk. Transient errors, as of network disks, are retried; a full disk is not."""
    for attempt in range(_SYNC_ATTEMPTS):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            return
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) or attempt == _SYNC_ATTEMPTS - 1:
                raise
            time.sleep(0.1 * 2**attempt)
        finally:
            os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Flush a folder's list of files to disk. Some network file systems do this by themselves and refuse the call."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def disk_error(error: OSError, path: Path) -> UserError:
    """Return a UserError that names the path, the reason and, if the disk is full, the free space."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and path.parent.exists():
        reason += f"; {shutil.disk_usage(path.parent).free >> 20} MiB free there"
    return UserError(f"{path}: cannot be written ({reason})")
