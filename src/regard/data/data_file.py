"""A text file or pipe, plain or compressed (gzip, xz, zstd), that is hashed while it is read."""

import gzip
import hashlib
import io
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from regard.data.corpus_report import CorpusReport
from regard.errors import UserError
from regard.files import cache_folder
from regard.paths import remote_url

if TYPE_CHECKING:
    from hashlib import _Hash

_BUFFER = 1 << 18
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"  # the first bytes of such files
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the byte order mark, which is not valid UTF-8

_SUFFIXES = (".gz", ".xz", ".zst")
"""Suffixes that say nothing about the content. Whether a file is compressed is known from its first bytes."""


class DataFile:
    """A plain or compressed file or pipe. It is read once: the hash of its bytes is computed on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = hashlib.sha256()

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the uncompressed content; errors while reading name the file."""
        try:
            with (
                _open_raw(self.path) as raw,
                _HashingReader(raw, self._hash) as hashed,
                io.BufferedReader(hashed, _BUFFER) as file,
            ):
                with self._uncompressed(file, hashed.peek(len(_XZ))) as content:
                    yield content
                while file.read(_BUFFER):
                    pass  # the hash needs every byte
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError):
            raise UserError(f"{self.path}: not a complete compressed file; copy it again") from None
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror or error})") from None

    @contextmanager
    def _uncompressed(self, file: BinaryIO, start: bytes) -> Iterator[BinaryIO]:
        if start.startswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as content:
                yield content  # type: ignore[misc]
        elif start.startswith(_XZ):
            with lzma.LZMAFile(file) as xz:
                yield xz  # type: ignore[misc]
        elif start.startswith(_ZSTD):
            from regard.data.zstd_reader import ZstdReader

            yield io.BufferedReader(ZstdReader(file, self.path), _BUFFER)
        else:
            yield file

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """Read all bytes for their hash, and return the path of the file, or of a temporary copy of a remote one."""
        if not remote_url(self.path):
            with self.open():
                pass
            yield self.path
            return
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder, self.open() as content:
            copy = Path(folder) / self.path.name
            with copy.open("wb") as file:
                shutil.copyfileobj(content, file, _BUFFER)
            yield copy

    def lines(self) -> Iterator[bytes]:
        """Yield the lines without their line feeds."""
        with self.open() as file:
            first = file.readline()
            if first.startswith(_UTF_16):
                raise UserError(f"{self.path}: is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {self.path} > NEW")
            if first:
                yield first.removesuffix(b"\n")
            for line in file:
                yield line.removesuffix(b"\n")

    def digest(self) -> bytes:
        """Return the SHA-256 of the bytes read so far: of the whole file once it was read to its end."""
        return self._hash.digest()


def _open_raw(path: Path) -> AbstractContextManager[Any]:
    """Open a file, or one on another system such as s3://bucket/name."""
    url = remote_url(path)
    if not url:
        return path.open("rb", buffering=0)
    try:
        import fsspec
    except ImportError:
        raise UserError(f"{url}: needs a package: pip install 'regard[remote]'") from None
    try:
        return fsspec.open(url, "rb").open()
    except FileNotFoundError:
        raise UserError(f"{url}: no such file") from None
    except (ImportError, ValueError) as error:  # no package for this kind of system
        raise UserError(f"{url}: cannot be read ({str(error).partition(chr(10))[0]})") from None


class _HashingReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, hash_: "_Hash") -> None:
        self._raw = raw
        self._hash = hash_
        self._peeked = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._peeked:
            n = min(len(buffer), len(self._peeked))
            buffer[:n], self._peeked = self._peeked[:n], self._peeked[n:]
            return n
        n = self._raw.readinto(buffer) or 0
        self._hash.update(memoryview(buffer)[:n])
        return n

    def peek(self, n: int) -> bytes:
        """Return the next n bytes, or fewer at the end of the file, without consuming them. A pipe cannot seek."""
        while len(self._peeked) < n and (more := self._raw.read(n - len(self._peeked))):
            self._hash.update(more)
            self._peeked += more
        return self._peeked


def without_compression(path: Path) -> Path:
    """Return the path without the suffix of a compressed file: corpus.tsv.gz becomes corpus.tsv."""
    return path.with_suffix("") if path.suffix in _SUFFIXES else path


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a plain or compressed file without their line feeds."""
    return DataFile(path).lines()


def fingerprint(files: Iterable[DataFile], options: str) -> str:
    """Return a hash of files that have been read and of the options that they are read with."""
    digest = hashlib.sha256(options.encode())
    for file in files:
        digest.update(file.digest())
    return digest.hexdigest()


def fingerprint_files(paths: Sequence[Path], options: str) -> str:
    """Read files only to return their `fingerprint`."""
    files = [DataFile(path) for path in paths]
    for file in files:
        with file.open():
            pass
    return fingerprint(files, options)


def count_lines(path: Path) -> tuple[int, str]:
    """Return the number of lines of a file, and the hash of its bytes."""
    file = DataFile(path)
    n_lines = sum(1 for _ in file.lines())
    return n_lines, file.digest().hex()


@dataclass(frozen=True)
class BadLine:
    """Why a line or pair cannot be used."""

    problem: str


def decode_line(raw: bytes, number: int, report: CorpusReport, *, first: bool, end: bytes = b"") -> str | BadLine:
    """Decode line `number`; a byte order mark (if `first`) and a carriage return before `end` are removed."""
    if first and raw.startswith(b"\xef\xbb\xbf"):
        report.add("byte order mark removed", number)
        raw = raw[3:]
    if raw.endswith(b"\r" + end):
        report.add("carriage return removed", number)
        raw = raw[: -1 - len(end)] + end
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return BadLine("invalid UTF-8")
    return BadLine("NUL character") if "\0" in text else text


def decode_any(raw: bytes) -> tuple[str, bool]:
    """Return a line without its end as text, and whether it is text: invalid bytes and NUL characters are replaced."""
    try:
        line, is_text = raw.decode("utf-8"), True
    except UnicodeDecodeError:
        line, is_text = raw.decode("utf-8", errors="replace"), False
    return line.replace("\0", "\N{REPLACEMENT CHARACTER}").rstrip("\r\n"), is_text and "\0" not in line
