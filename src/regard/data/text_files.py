"""Plain text on disk, read line by line without changing white space."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.corpus_report import CorpusReport
from regard.data.data_file import BadLine, DataFile, decode_line, fingerprint
from regard.data.text_spool import TextSpool
from regard.errors import UserError
from regard.paths import check_input_file

_PIECE = 1 << 16  # maximum number of bytes per piece; longer lines are split, as a whole book may be one line


@dataclass(frozen=True)
class TextFiles:
    """UTF-8 files or pipes, plain or gzipped, each of them one document."""

    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise UserError("no text file given; name one or more")
        for path in self.paths:
            check_input_file(path)

    def read(self) -> "ParsedText":
        """Read, hash and check the files in one pass."""
        files = [DataFile(path) for path in self.paths]
        report, pieces, ends = CorpusReport(unit="lines"), TextSpool(), []
        for file in files:
            for piece in read_pieces(file, report):
                pieces.append(piece)
            ends.append(len(pieces))
        return ParsedText(pieces, tuple(ends), report, fingerprint(files, "text"))


@dataclass(frozen=True)
class ParsedText:
    """The text of files that have been read. Close it to free the temporary file."""

    pieces: TextSpool
    """Lines with their line feeds, or parts of very long lines"""
    ends: tuple[int, ...]
    """Number of pieces up to the end of each document"""
    report: CorpusReport
    """Lines are counted over all files."""
    fingerprint: str
    """SHA-256 of the files"""

    def documents(self) -> Iterator[Iterator[str]]:
        """Yield the pieces of each document."""
        for start, end in zip((0, *self.ends), self.ends, strict=False):
            yield self.pieces.slice(start, end)

    def close(self) -> None:
        self.pieces.close()


def read_pieces(file: DataFile, report: CorpusReport) -> Iterator[str]:
    """Yield the lines of a file with their line feeds, or parts of very long lines; bad ones are left out."""
    starts_file, starts_line = True, True
    for raw in _raw_pieces(file):
        report.lines += starts_line
        text = decode_line(raw, report.lines, report, first=starts_file, end=b"\n")
        if isinstance(text, BadLine):
            report.add(text.problem, report.lines)
        else:
            report.used += starts_line
            yield text
        starts_file, starts_line = False, raw.endswith(b"\n")


def _raw_pieces(file: DataFile) -> Iterator[bytes]:
    with file.open() as content:
        rest = b""
        while more := content.readline(_PIECE - len(rest)):
            piece = rest + more
            cut = len(piece) if piece.endswith(b"\n") or len(piece) < _PIECE else _split_position(piece)
            yield piece[:cut]
            rest = piece[cut:]
        if rest:
            yield rest


def _split_position(piece: bytes) -> int:
    """Return where to split a long line: before its last space, else before its last character."""
    if (space := piece.rfind(b" ")) > 0:
        return space
    starts = (i for i in range(len(piece) - 1, len(piece) - 5, -1) if piece[i] & 0xC0 != 0x80)
    return next(starts, len(piece))
