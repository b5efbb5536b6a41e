"""The uncompressed content of a zstd file, as a stream. Unlike zstandard's own stream it notices a truncated file."""

import io
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import UserError

_BLOCK = 1 << 16


class ZstdReader(io.RawIOBase):
    """Reads all frames of a file; raises EOFError if it is damaged or not complete."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise UserError(
                f"{path}: zstd needs a package: pip install 'regard[data]'; or decompress the file"
            ) from None
        self._file = file
        self._make = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._frame = self._make()
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = self._frame.unused_data if self._frame.eof else self._file.read(_BLOCK)
            if self._frame.eof:
                compressed = compressed or self._file.read(_BLOCK)
                if not compressed:
                    return 0
                self._frame = self._make()
            elif not compressed:
                raise EOFError
            try:
                self._ready = self._frame.decompress(compressed)
            except self._error:
                raise EOFError from None
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n
