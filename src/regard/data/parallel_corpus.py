"""Parallel text on disk: two line-aligned files, or one file of a format of `pair_readers`, plain or compressed.

Bad lines do not stop a run, but are counted: the report has each kind of problem with its first line number.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from regard.data.arrow_tables import data_files
from regard.data.corpus_report import CorpusReport
from regard.data.data_file import DataFile, fingerprint, without_compression
from regard.data.pair_cleaner import OnBadPair, PairCleaner
from regard.data.pair_readers import READERS, RawPair, aligned_lines
from regard.data.pair_rules import FilterConfig, apply_rules
from regard.data.pair_table import PairTable, PairTableBuilder
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_spool import Texts, TextSpool
from regard.errors import UserError
from regard.paths import check_input_file

SentencePair = tuple[str, str]

_BLOCK = 1024  # pairs read at a time


@dataclass(frozen=True)
class Corpus:
    """The files of a parallel corpus: two paths, or one; `langs` are the two sides if that has more or names them.

    A single path may be a folder of Parquet files, or one that `save_to_disk` of the library `datasets` wrote.
    A pipe is read like a file; a single one without a suffix, as from `<(…)` in a shell, is a TSV.
    """

    paths: tuple[Path, ...]
    langs: tuple[str, str] | None = None
    max_chars: int = 5_000
    filter: FilterConfig | None = None
    """Pairs to leave out although they can be read; None: all are kept"""
    is_tsv: bool = False
    """Whether a single file is a TSV, whatever its suffix is"""

    def __post_init__(self) -> None:
        if len(self.paths) not in (1, 2):
            raise UserError(f"expected one or two data files, got {len(self.paths)}")
        for path in self.data_paths:
            check_input_file(path)
        if len(self.paths) == 1 and self.format not in READERS:
            raise UserError(f"{self.paths[0]}: give two line-aligned files, or one that ends in {', '.join(READERS)}")

    @property
    def data_paths(self) -> list[Path]:
        """The files to read: a folder has several"""
        return data_files(self.paths[0]) if len(self.paths) == 1 else list(self.paths)

    @property
    def format(self) -> str:
        """The suffix of the only file; empty for two files, whose names do not matter"""
        if len(self.paths) == 2:
            return ""
        if self.is_tsv:
            return ".tsv"
        suffix = without_compression(self.data_paths[0]).suffix.lower()
        return ".tsv" if not suffix and self.paths[0].is_fifo() else suffix

    def read(self, progress: ReadingProgress = no_progress, on_bad_pair: "OnBadPair | None" = None) -> "ParsedCorpus":
        """Read, hash and clean the files in one pass. `on_bad_pair` is called with each pair that cannot be used."""
        files = [DataFile(path) for path in self.data_paths]
        report, texts, lines, table = CorpusReport(), TextSpool(), array("q"), PairTableBuilder()
        raw_pairs, clean = self.raw_pairs(files), PairCleaner(self.max_chars, on_bad_pair)
        while block := list(islice(raw_pairs, _BLOCK)):
            progress("reading", report.lines)
            sides = clean(block, report, lines)
            texts.extend(sides)
            table.extend(sides)
        options = f"{self.format} {self.langs} {self.max_chars}"
        if self.filter:
            options += f" {self.filter.rules}"
        name = " + ".join(path.name for path in self.paths)
        corpus = ParsedCorpus(name, texts, lines, table.table(), report, fingerprint(files, options))
        return corpus.filtered(self.filter) if self.filter else corpus

    def raw_pairs(self, files: Sequence[DataFile]) -> Iterator[RawPair]:
        """Yield the pairs of the files as they are written there."""
        if len(self.paths) == 2:
            return aligned_lines(*files)
        reader = READERS[self.format]
        return chain.from_iterable(reader(file, self.langs) for file in files)


@dataclass(frozen=True)
class CorpusPart:
    """Consecutive pairs start … stop − 1 of a corpus that come from the same files."""

    name: str
    start: int
    stop: int
    report: CorpusReport
    prefix: str = ""
    """What sources begin with when they are tokenised, such as a tag and a space; it is not part of the text"""

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class ParsedCorpus:
    """The clean sentence pairs of a corpus that has been read. Close it to free the temporary file."""

    name: str
    """File names, or the name in a mixture, for messages"""
    texts: Texts
    """Source and target of pair i are texts 2 i and 2 i + 1."""
    lines: "array[int]"
    """The line of each pair in the files, from 1"""
    table: PairTable
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

    @property
    def parts(self) -> tuple[CorpusPart, ...]:
        return (CorpusPart(self.name, 0, len(self), self.report),)

    def check_not_empty(self) -> None:
        """Raise a UserError with the report if there is no pair, or none in one of its parts."""
        for part in self.parts:
            if not len(part):
                raise no_usable_pair(part.name, part.report)

    def filtered(self, config: FilterConfig) -> "ParsedCorpus":
        """Return the pairs to which no rule applies, in place of this corpus; the report says what was left out."""
        rules = config.rules
        reasons = apply_rules(self.table, rules)
        kept, report = reasons < 0, self.report.copy()
        if kept.all():
            return self
        for row in np.flatnonzero(~kept).tolist():
            report.leave_out(rules[reasons[row]].problem, [self.lines[row]])
        lines = array("q", np.asarray(self.lines)[kept].tobytes())
        self.texts.keep(np.repeat(kept, 2))
        return ParsedCorpus(self.name, self.texts, lines, self.table.select(kept), report, self.fingerprint)

    def close(self) -> None:
        self.texts.close()


def no_usable_pair(name: str, report: CorpusReport) -> UserError:
    """Return the error of a corpus without pairs; the report says why."""
    return UserError(f"no usable pair of sentences: {'; '.join(report.describe(name))}")
