"""Remembers which files had the right checksum, so that large models need not be read twice to be loaded.

Off by default. With REGARD_VERIFY=quick, a file that was verified before and has the same size and time stamp is
trusted.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from regard.errors import UserError
from regard.files import cache_folder, write_atomically


def was_verified(path: Path, sha256: str) -> bool:
    """Return whether the file had this checksum earlier and seems unchanged since."""
    if not _is_quick():
        return False
    try:
        return _stamp_file(path).read_text() == _stamp(path, sha256)
    except (OSError, ValueError):
        return False


def remember_verified(path: Path, sha256: str) -> None:
    """Note that the file has this checksum now."""
    if not _is_quick():
        return
    with suppress(OSError, UserError):  # a cache that cannot be written only costs time
        stamp = _stamp_file(path)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(stamp, _stamp(path, sha256).encode())


def _is_quick() -> bool:
    mode = os.environ.get("REGARD_VERIFY", "full")
    if mode not in ("full", "quick"):
        raise UserError(f"REGARD_VERIFY={mode}: unknown; set it to full or quick")
    return mode == "quick"


def _stamp_file(path: Path) -> Path:
    return cache_folder() / "verified" / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]


def _stamp(path: Path, sha256: str) -> str:
    status = path.stat()
    return f"{sha256} {status.st_size} {status.st_mtime_ns} {status.st_ino}"
