"""ZIP archives that are read within limits, and written again with some of their files replaced."""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

from regard.documents.errors import DocumentError
from regard.documents.limits import DocumentLimits

_COMPOUND_FILE = bytes.fromhex("d0cf11e0a1b11ae1")  # how Office stores encrypted documents, and stored old ones
_END = struct.Struct("<4s4H2LH")  # the end record: number of entries and bytes of the directory
_LONGEST_ENTRY = 512  # bytes of the directory per entry
_SMALL = 1 << 20  # bytes; what smaller files unpack to is harmless
_MIMETYPE = "mimetype"


class Archive:
    """The files of an archive in memory."""

    def __init__(self, entries: list[zipfile.ZipInfo], files: dict[str, bytes], limits: DocumentLimits) -> None:
        self.entries = entries
        self.files = files
        """Content by name"""
        self.limits = limits
        self._n_read = 0

    @classmethod
    def read(cls, content: bytes, limits: DocumentLimits) -> "Archive":
        """Unpack an archive; refuse one that is damaged, encrypted, too large when unpacked, or has unsafe names."""
        if content.startswith(_COMPOUND_FILE):
            raise DocumentError("is encrypted, or in the format of Word 97; remove the password, or save it as .docx")
        _check_directory(content, limits)
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                entries = archive.infolist()
                _check_entries(entries, limits)
                return cls(entries, {entry.filename: _read_entry(archive, entry) for entry in entries}, limits)
        except DocumentError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, NotImplementedError, ValueError):
            raise DocumentError("is a damaged archive") from None

    def file(self, name: str) -> bytes:
        """Return a file that is to be parsed; refuse it if all such files together are too large."""
        if name not in self.files:
            raise DocumentError(f"is not what its extension says, or damaged: it has no {name}")
        self._n_read += len(self.files[name])
        if self._n_read > self.limits.markup:
            raise DocumentError(f"has more than {self.limits.markup >> 20:,} MiB of text and XML")
        return self.files[name]

    def write(self, replaced: Mapping[str, bytes]) -> bytes:
        """Return the archive with other contents of some files; the mimetype, if there is one, is first and stored."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for entry in sorted(self.entries, key=lambda entry: entry.filename != _MIMETYPE):
                copy = zipfile.ZipInfo(entry.filename, entry.date_time)
                copy.compress_type = zipfile.ZIP_STORED if entry.filename == _MIMETYPE else entry.compress_type
                copy.external_attr = entry.external_attr
                archive.writestr(copy, replaced.get(entry.filename, self.files[entry.filename]))
        return packed.getvalue()


def _check_directory(content: bytes, limits: DocumentLimits) -> None:
    """Refuse an archive without a directory, or with one that is too large to be read."""
    at = content.rfind(b"PK\x05\x06")
    if at < 0 or len(content) < at + _END.size:
        raise DocumentError("is a damaged archive, or not what its extension says")
    *_, n_entries, n_bytes, _, _ = _END.unpack_from(content, at)
    if n_entries > limits.entries or n_bytes > _LONGEST_ENTRY * limits.entries:
        raise DocumentError(f"is an archive of more than {limits.entries:,} files")


def _check_entries(entries: list[zipfile.ZipInfo], limits: DocumentLimits) -> None:
    if len(entries) > limits.entries:
        raise DocumentError(f"is an archive of more than {limits.entries:,} files")
    if any(entry.flag_bits & 1 for entry in entries):
        raise DocumentError("is encrypted; remove the password first")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise DocumentError("is an archive with an unusual compression")
    if sum(entry.file_size for entry in entries) > limits.unpacked:
        raise DocumentError(f"has more than {limits.unpacked >> 20:,} MiB when it is unpacked")
    if any(e.file_size > max(_SMALL, limits.ratio * e.compress_size) for e in entries):
        raise DocumentError(f"is compressed more than {limits.ratio}-fold, as no document is")
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        raise DocumentError("is an archive in which two files have the same name")
    if any(_is_unsafe(name) for name in names):
        raise DocumentError("is an archive with the name of a file outside of it")


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of a file. No more is unpacked than the size that it claims to have."""
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise zipfile.BadZipFile
    return content


def _is_unsafe(name: str) -> bool:
    return name.startswith("/") or "\\" in name or "\0" in name or ":" in name[:3] or ".." in name.split("/")
