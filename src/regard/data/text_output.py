"""Text files that are written completely or not at all, compressed if their name says so."""

import gzip
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
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
        elif path.suffix == ".zst":
            import zstandard

            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as zst:
                yield zst
        else:
            yield file


def check_text_suffix(path: Path) -> None:
    """Refuse a compression whose package is not installed."""
    if path.suffix == ".zst" and find_spec("zstandard") is None:
        raise UserError(f"{path}: zstd needs a package: pip install 'regard[data]'; or choose a name that ends in .gz")
