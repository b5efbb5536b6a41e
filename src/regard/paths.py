"""Checks of the paths that a user names, before anything is read or written."""

import os
import re
import stat
from pathlib import Path

from regard.errors import UserError


def check_input_file(path: Path, read_once: bool = True) -> None:
    """Refuse a path that is missing, a folder or a device.

    A pipe, such as `<(zcat corpus.gz)` in a shell, can be read once only: it is refused unless `read_once` is set.
    A file on another system (`s3://…`) is looked for when it is read.
    """
    if remote_url(path):
        return
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise UserError(f"{str(path)!r}: no such file; a path cannot contain a NUL character") from None
    if stat.S_ISFIFO(mode) and not read_once:
        raise UserError(f"{path}: is a pipe, which can be read once only; write its content to a file first")
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise UserError(f"{path}: is a {_kind(mode)}; name a file")


def check_output_file(path: Path, option: str) -> None:
    """Refuse a file that cannot be written, or is no file: it would be replaced, even a device such as /dev/null."""
    if path.exists() and not path.is_file():
        raise UserError(f"{option} {path}: is a {_kind(path.stat().st_mode)}; name a file")
    if not path.parent.is_dir():
        raise UserError(f"{option} {path}: there is no folder {path.parent}")
    check_writable(path.parent, option)


def check_writable(folder: Path, option: str) -> None:
    """Refuse a folder in which no file can be created."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{option}: the folder {folder} cannot be written; choose another")


def remote_url(path: Path) -> str:
    """Return the URL of a path that was one, such as s3://bucket/name, whose second slash `Path` drops; else ""."""
    match = re.fullmatch(r"([a-z][a-z0-9+]+):/{1,2}([^/].*)", str(path))
    return f"{match[1]}://{match[2]}" if match else ""


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
