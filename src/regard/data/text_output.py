"""Text files that are written completely or not at all, compressed if their name says so."""

import gzip
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError
from regard.files import new_file

_GZIP_LEVEL = 6


@contextmanager
def new_text_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name when the block succeeds. Equal contents give equal bytes, compressed too."""
    check_text_suffix(path)
    with new_file(path) as file:
        if path.suffix == ".gz":  # a name or a time in its header would make equal contents differ
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as content:
                yield content  # type: ignore[misc]
        elif path.suffix == ".xz":
            with lzma.LZMAFile(file, "wb") as xz:
                yield xz  # type: ignore[misc]
        else:
            yield file


def check_text_suffix(path: Path) -> None:
    """Refuse a name whose compression can be read but not written."""
    if path.suffix == ".zst":
        raise UserError(f"{path}: zstd files can be read but not written; choose a name that ends in .gz or .xz")
