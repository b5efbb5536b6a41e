"""Parallel text on disk: two line-aligned files, one TSV or one JSONL, plain or gzipped.

Bad lines never stop a run and are never used unseen: each kind is counted, with its first line number.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError
from regard.text.clean import clean

SentencePair = tuple[str, str]

# What can be wrong with a line, and whether the pair is used all the same once it is mended.
REPAIRED = {"byte order mark removed", "carriage return removed"}


@dataclass(frozen=True)
class BadLine:
    """Why a pair cannot be used."""

    kind: str


RawPair = tuple[bytes | str, bytes | str] | BadLine


@dataclass
class CorpusReport:
    """How many pairs (or lines of a text) were read and used, and what was wrong with the others."""

    lines: int = 0
    used: int = 0
    problems: dict[str, tuple[int, int]] = field(default_factory=dict)
    """kind → (count, first line)"""
    unit: str = "pairs"

    def add(self, problem: str, line: int) -> None:
        count, first = self.problems.get(problem, (0, line))
        self.problems[problem] = (count + 1, first)

    def describe(self, name: str) -> list[str]:
        rows = [f"{name}: {self.used:,} {self.unit} used of {self.lines:,} lines"]
        for problem, (count, first) in sorted(self.problems.items()):
            fate = "" if problem in REPAIRED else ", left out"
            rows.append(f"{name}: {count:,} × {problem}{fate} (first at line {first:,})")
        return rows


@dataclass(frozen=True)
class Corpus:
    """Where the pairs are: two paths, or one TSV or JSONL; `langs` picks the two sides of a JSONL."""

    paths: tuple[Path, ...]
    langs: tuple[str, str] | None = None
    max_chars: int = 5_000

    def __post_init__(self) -> None:
        if len(self.paths) == 1 and self.format not in (".tsv", ".jsonl"):
            raise UserError(f"{self.paths[0]}: give two line-aligned files, or one .tsv or .jsonl file")
        if len(self.paths) not in (1, 2):
            raise UserError(f"expected one or two data files, got {len(self.paths)}")
        for path in self.paths:
            if not path.is_file():
                raise UserError(f"{path}: no such file")

    @property
    def format(self) -> str:
        return Path(self.paths[0].name.removesuffix(".gz")).suffix

    def pairs(self, report: CorpusReport) -> Iterator[SentencePair]:
        """The clean pairs in order; `report` counts what was read, mended and left out."""
        for number, record in enumerate(self._records(), start=1):
            report.lines = number
            sides = record if isinstance(record, tuple) else (record,)
            texts = [self._mend(side, number, report) for side in sides]
            if problem := next((t for t in texts if isinstance(t, BadLine)), None):
                report.add(problem.kind, number)
                continue
            report.used += 1
            yield str(texts[0]), str(texts[1])

    def fingerprint(self) -> str:
        """SHA-256 of the files' bytes and of how they are read."""
        return fingerprint_files(self.paths, f"{self.format} {self.langs} {self.max_chars}")

    def _records(self) -> Iterator[RawPair]:
        if len(self.paths) == 2:
            yield from _aligned(*self.paths)
        elif self.format == ".tsv":
            yield from _tsv(self.paths[0])
        else:
            yield from _jsonl(self.paths[0], self.langs)

    def _mend(self, raw: "bytes | str | BadLine", number: int, report: CorpusReport) -> "str | BadLine":
        if isinstance(raw, BadLine):
            return raw
        if isinstance(raw, bytes):
            raw = decode_line(raw, number, report, first=number == 1)
        if isinstance(raw, BadLine):
            return raw
        if "\0" in raw:
            return BadLine("NUL character")
        if any("\ud800" <= c <= "\udfff" for c in raw):
            return BadLine("lone surrogate")
        text = clean(raw)
        if not text:
            return BadLine("empty side")
        if len(text) > self.max_chars:
            return BadLine(f"over {self.max_chars:,} characters")
        return text


def decode_line(raw: bytes, number: int, report: CorpusReport, *, first: bool, end: bytes = b"") -> str | BadLine:
    """Line `number` as text, without the mark that may open a file (`first`) and a carriage return before `end`."""
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


def fingerprint_files(paths: Sequence[Path], how: str) -> str:
    """SHA-256 of the files' bytes and of how they are read."""
    digest = hashlib.sha256(how.encode())
    for path in paths:
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    return digest.hexdigest()


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain or gzipped file, without their line feeds."""
    with open_bytes(path) as file:
        for line in file:
            yield line.removesuffix(b"\n")


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The content of a plain or gzipped file; what goes wrong while it is read names the file."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path}: not a whole gzip file; copy it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None


def _aligned(src: Path, tgt: Path) -> Iterator[tuple[bytes, bytes]]:
    counts = [0, 0]
    for pair in zip_longest(read_lines(src), read_lines(tgt)):
        counts = [count + (side is not None) for count, side in zip(counts, pair, strict=True)]
        if pair[0] is not None and pair[1] is not None:
            yield pair
    if counts[0] != counts[1]:
        raise UserError(
            f"{src} has {counts[0]:,} lines but {tgt} has {counts[1]:,}; line n of one must translate line n "
            "of the other"
        )


def _tsv(path: Path) -> Iterator[RawPair]:
    for line in read_lines(path):
        columns = line.split(b"\t")
        if len(columns) == 2:
            yield columns[0], columns[1]
        else:
            yield BadLine("not two tab-separated columns")


def _jsonl(path: Path, langs: tuple[str, str] | None) -> Iterator[RawPair]:
    for line in read_lines(path):
        try:
            sides: dict[str, str] = json.loads(line)["translation"]
            first, second = langs or tuple(sides)[:2]
            if not (isinstance(sides[first], str) and isinstance(sides[second], str)):
                raise TypeError
            langs = (first, second)  # the first good line decides which language is the source
            yield sides[first], sides[second]
        except (ValueError, KeyError, TypeError, RecursionError):
            yield BadLine('not {"translation": {…, …}} with both languages')
