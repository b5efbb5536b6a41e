"""Files that are there whole or not at all."""

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError

_RETRIES = 3


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside `path`, flush to disk, then rename over it: a reader sees the old or the new file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_error(error, path) from error


@contextmanager
def new_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its name when the block ends well, and vanishes otherwise.

    Where `path` is there already, by another process perhaps, it stays, unless it is to be replaced.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
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


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files and folders that a killed process left behind."""
    for leftover in folder.glob(".*.tmp"):
        if _alive(leftover.suffixes[-2].removeprefix(".")):
            continue
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _alive(pid: str) -> bool:
    """Whether a process other than this one has this number."""
    if not pid.isdigit() or int(pid) == os.getpid():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is there, and not ours
    return True


def sync_file(path: Path) -> None:
    for attempt in range(_RETRIES):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            return
        except OSError as error:
            # A passing fault of a network disk deserves another try; a full disk does not.
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) or attempt == _RETRIES - 1:
                raise
            time.sleep(0.1 * 2**attempt)
        finally:
            os.close(descriptor)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: OSError, path: Path) -> UserError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    free = shutil.disk_usage(path.parent).free >> 20 if path.parent.exists() else 0
    return UserError(f"{path}: cannot be written ({reason}; {free} MiB free there)")
