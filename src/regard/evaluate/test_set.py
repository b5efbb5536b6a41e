"""Test sets: sources and references, and a tag of each sentence."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from regard.data.arrow_tables import data_files
from regard.data.corpus_report import CorpusReport
from regard.data.data_file import read_lines
from regard.data.pair_readers import named_languages
from regard.data.parallel_corpus import Corpus
from regard.data.text_spool import TextSpool
from regard.errors import UserError
from regard.evaluate.result import describe_problems
from regard.paths import check_input_file


@dataclass(frozen=True)
class TestSet:
    __test__ = False  # not a pytest class

    sources: list[str]
    references: list[str]


def read_test_set(src: Path, ref: Path) -> TestSet:
    """Read sources and references from two line-aligned files, plain or compressed."""
    sources, references = list(_text_lines(src)), list(_text_lines(ref))
    _check_counts(src, sources, ref, references)
    return TestSet(sources, references)


def read_test_files(paths: Sequence[Path], languages: tuple[str, str] | None) -> tuple[TestSet, tuple[str, ...]]:
    """Read two line-aligned files, or one file of pairs; return the test set and what was left out of it.

    `languages` are the source and the target: in a file that names its languages, they decide which side is which.
    """
    if len(paths) == 2:
        return read_test_set(*paths), ()
    if len(paths) != 1:
        raise UserError(f"got {len(paths)} test files; give SRC and REF, or one file of pairs")
    [path] = paths
    data_files(path)
    named = named_languages(path)
    with closing(Corpus((path,), languages if named else None).read()) as corpus:
        pairs, report = list(corpus), corpus.report
    if not pairs:
        raise UserError(f"{path}: no usable pair ({_reason(report, named, languages)})")
    return TestSet([src for src, _ in pairs], [ref for _, ref in pairs]), describe_problems(report)


def _reason(report: CorpusReport, named: tuple[str, str] | None, languages: tuple[str, str] | None) -> str:
    problems = ", ".join(report.problems) or "it is empty"
    if not named or not languages or set(named) == set(languages):
        return problems
    return f"{problems}; the file has {' and '.join(named)}, the model translates {' to '.join(languages)}"


def read_tags(path: Path, n: int) -> list[str]:
    """Read one tag per line for `n` sentences; a tag may be any text."""
    tags = [line.strip() for line in _text_lines(path)]
    if len(tags) != n:
        raise UserError(f"{path} has {len(tags):,} lines for {n:,} sentences; give one tag per sentence")
    return tags


@contextmanager
def spooled_pairs(src: Path, tgt: Path) -> Iterator[tuple[TextSpool, TextSpool]]:
    """Read two line-aligned files that may be larger than memory."""
    with closing(TextSpool()) as sources, closing(TextSpool()) as targets:
        for path, spool in ((src, sources), (tgt, targets)):
            for line in _text_lines(path):
                spool.append(line)
        _check_counts(src, sources, tgt, targets)
        yield sources, targets


def _check_counts(src: Path, sources: Sequence[str], ref: Path, references: Sequence[str]) -> None:
    if len(sources) != len(references):
        raise UserError(f"{src} has {len(sources):,} lines but {ref} has {len(references):,}; they must correspond")
    if not sources:
        raise UserError(f"{src}: is empty; give at least one sentence")


def _text_lines(path: Path) -> Iterator[str]:
    check_input_file(path)
    try:
        for line in read_lines(path):
            yield line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not UTF-8 ({error.reason} at byte {error.start} of a line); convert it first"
        ) from None
