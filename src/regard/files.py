"""Write files and folders completely or not at all."""

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
        for file in sorted(temporary.iterdir()):
            sync_file(file)
        sync_folder(temporary)
        if replace:
            shutil.rmtree(path, ignore_errors=True)
        try:
            temporary.rename(path)
        except OSError as error:
            if replace or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        sync_folder(path.parent)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def temporary_path(path: Path) -> Path:
    """Return an unused name in the folder of `path`: `.NAME.HOST.PID.RANDOM.tmp`.

    The host is part of it because containers that share a folder have PIDs that mean nothing to each other.
    """
    return path.with_name(f".{path.name}.{_host()}.{os.getpid()}.{_PROCESS}-{next(_number)}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files and folders of killed processes.

    These are the temporaries of this host whose process is gone, and those of any host that are a week old. Files
    whose names were not made by `temporary_path` are left alone.
    """
    for path in folder.glob(".*.tmp"):
        if not _is_leftover(path):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_leftover(path: Path) -> bool:
    name = _TEMPORARY.fullmatch(path.name)
    if name is None:
        return False
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
    return re.sub(r"[^\w-]", "_", socket.gethostname()) or "localhost"


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
    """Flush a folder's list of files to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: OSError, path: Path) -> UserError:
    """Return a UserError that names the path, the reason and the free space."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    free = shutil.disk_usage(path.parent).free >> 20 if path.parent.exists() else 0
    return UserError(f"{path}: cannot be written ({reason}; {free} MiB free there)")
