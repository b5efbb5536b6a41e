"""Parallel text on disk: two line-aligned files, one TSV or one JSONL, plain or gzipped.

Bad lines do not stop a run, but are counted: the report has each kind of problem with its first line number.
"""

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from regard.data.corpus_report import CorpusReport
from regard.data.data_file import BadLine, DataFile, decode_line, fingerprint
from regard.data.text_spool import TextSpool
from regard.errors import UserError
from regard.paths import check_input_file
from regard.text.clean import clean

SentencePair = tuple[str, str]
RawPair = tuple[bytes | str, bytes | str] | BadLine


@dataclass(frozen=True)
class Corpus:
    """The files of a parallel corpus: two paths, or one TSV or JSONL; `langs` are the two sides of a JSONL.

    A pipe is read like a file; a single one without a suffix, as from `<(…)` in a shell, is a TSV.
    """

    paths: tuple[Path, ...]
    langs: tuple[str, str] | None = None
    max_chars: int = 5_000

    def __post_init__(self) -> None:
        if len(self.paths) not in (1, 2):
            raise UserError(f"expected one or two data files, got {len(self.paths)}")
        for path in self.paths:
            check_input_file(path)
        if len(self.paths) == 1 and self.format not in (".tsv", ".jsonl"):
            raise UserError(f"{self.paths[0]}: give two line-aligned files, or one .tsv or .jsonl file")

    @property
    def format(self) -> str:
        """The suffix of the only file; empty for two files, whose names do not matter"""
        if len(self.paths) == 2:
            return ""
        suffix = Path(self.paths[0].name.removesuffix(".gz")).suffix
        return ".tsv" if not suffix and self.paths[0].is_fifo() else suffix

    def read(self) -> "ParsedCorpus":
        """Read, hash and clean the files in one pass."""
        files = [DataFile(path) for path in self.paths]
        report, texts, lines = CorpusReport(), TextSpool(), array("q")
        for src, tgt in self._clean_pairs(files, report):
            texts.append(src)
            texts.append(tgt)
            lines.append(report.lines)
        options = f"{self.format} {self.langs} {self.max_chars}"
        name = " + ".join(path.name for path in self.paths)
        return ParsedCorpus(name, texts, lines, report, fingerprint(files, options))

    def _clean_pairs(self, files: list[DataFile], report: CorpusReport) -> Iterator[SentencePair]:
        for number, pair in enumerate(self._raw_pairs(files), start=1):
            report.lines = number
            sides = pair if isinstance(pair, tuple) else (pair,)
            texts = [self._clean_side(side, number, report) for side in sides]
            if bad := next((text for text in texts if isinstance(text, BadLine)), None):
                report.add(bad.problem, number)
                continue
            report.used += 1
            yield str(texts[0]), str(texts[1])

    def _raw_pairs(self, files: list[DataFile]) -> Iterator[RawPair]:
        if len(files) == 2:
            return _aligned_lines(*files)
        if self.format == ".tsv":
            return _tsv_pairs(files[0])
        return _jsonl_pairs(files[0], self.langs)

    def _clean_side(self, raw: "bytes | str | BadLine", number: int, report: CorpusReport) -> "str | BadLine":
        if isinstance(raw, bytes):
            raw = decode_line(raw, number, report, first=number == 1)
        elif isinstance(raw, str):  # of a JSONL, which can write characters that UTF-8 cannot
            if "\0" in raw:
                return BadLine("NUL character")
            if any("\ud800" <= c <= "\udfff" for c in raw):
                return BadLine("lone surrogate")
        if isinstance(raw, BadLine):
            return raw
        text = clean(raw)
        if not text:
            return BadLine("empty side")
        if len(text) > self.max_chars:
            return BadLine(f"over {self.max_chars:,} characters")
        return text


@dataclass(frozen=True)
class ParsedCorpus:
    """The clean sentence pairs of a corpus that has been read. Close it to free the temporary file."""

    name: str
    """File names, for messages"""
    texts: TextSpool
    """Source and target of pair i are texts 2 i and 2 i + 1."""
    lines: "array[int]"
    """The line of each pair in the files, from 1"""
    report: CorpusReport
    fingerprint: str
    """SHA-256 of the files and of the options they were read with"""

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> SentencePair:
        return self.texts[2 * index], self.texts[2 * index + 1]

    def __iter__(self) -> Iterator[SentencePair]:
        texts = iter(self.texts)
        return zip(texts, texts, strict=True)

    def close(self) -> None:
        self.texts.close()


def _aligned_lines(src: DataFile, tgt: DataFile) -> Iterator[tuple[bytes, bytes]]:
    counts = [0, 0]
    for pair in zip_longest(src.lines(), tgt.lines()):
        counts = [count + (side is not None) for count, side in zip(counts, pair, strict=True)]
        if pair[0] is not None and pair[1] is not None:
            yield pair
    if counts[0] != counts[1]:
        raise UserError(
            f"{src.path} has {counts[0]:,} lines but {tgt.path} has {counts[1]:,}; line n of one must be the "
            "translation of line n of the other"
        )


def _tsv_pairs(file: DataFile) -> Iterator[RawPair]:
    for line in file.lines():
        columns = line.split(b"\t")
        if len(columns) == 2:
            yield columns[0], columns[1]
        else:
            yield BadLine("not two tab-separated columns")


def _jsonl_pairs(file: DataFile, langs: tuple[str, str] | None) -> Iterator[RawPair]:
    for line in file.lines():
        try:
            sides: dict[str, str] = json.loads(line)["translation"]
            first, second = langs or tuple(sides)[:2]
            if not (isinstance(sides[first], str) and isinstance(sides[second], str)):
                raise TypeError
            langs = (first, second)  # the first good line decides which language is the source
            yield sides[first], sides[second]
        except (ValueError, KeyError, TypeError, RecursionError):
            yield BadLine('not {"translation": {…, …}} with both languages')
