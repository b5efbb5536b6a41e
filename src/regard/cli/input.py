"""Text that verbs read: command-line arguments and standard input."""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from regard.cli.output import print_warning
from regard.errors import UserError

_LINES_AT_ONCE = 1024
_MAX_LINE = 16 << 20  # bytes


def decode_argument(argument: str) -> str:
    """Return an argument decoded as UTF-8, whatever the locale; invalid bytes are replaced."""
    return os.fsencode(argument).decode("utf-8", errors="replace")


def input_texts(texts: list[str] | None) -> Iterator[str]:
    """Yield the values of --text or, without any, the lines of standard input."""
    return map(decode_argument, texts) if texts else stdin_lines()


def file_texts(path: Path, texts: list[str] | None, languages: tuple[str, str]) -> Iterator[str]:
    """Yield the lines of a file or, of a file of pairs, the side in the first of the languages."""
    from regard.data.arrow_tables import data_files
    from regard.data.data_file import read_lines
    from regard.data.pair_readers import is_pair_file
    from regard.evaluate.test_set import read_test_files

    if texts:
        raise UserError("--input and --text exclude each other; give one of them")
    data_files(path)
    if path.is_dir() or is_pair_file(path):
        test_set, problems = read_test_files([path], languages)
        for problem in problems:
            print_warning(problem)
        return iter(test_set.sources)
    return _decoded(read_lines(path), str(path))


def lines_at_once(texts: list[str] | None, path: Path | None = None) -> int:
    """Return how many lines to process together: a person at a terminal waits for each, a file is faster in batches."""
    return 1 if not texts and path is None and sys.stdin is not None and sys.stdin.isatty() else _LINES_AT_ONCE


def input_chunks(texts: list[str] | None) -> Iterator[list[str]]:
    """Yield what `input_texts` yields, as lists of lines to process together."""
    lines = input_texts(texts)
    while chunk := list(islice(lines, lines_at_once(texts))):
        yield chunk


def stdin_lines() -> Iterator[str]:
    """Yield the lines of standard input as UTF-8. Invalid bytes and NUL characters are replaced, with a warning."""
    if sys.stdin is None:
        raise UserError("there is no standard input; give --text")
    return _decoded(_raw_lines(sys.stdin.buffer), "standard input")


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    from regard.data.data_file import decode_any

    bad_lines = 0
    for raw in lines:
        line, is_text = decode_any(raw)
        bad_lines += not is_text
        yield line
    if bad_lines:
        print_warning(f"{name}: {bad_lines:,} × a line with invalid UTF-8 or a NUL character, replaced by \ufffd")


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; of one longer than 16 MiB, which no model can read, only the beginning."""
    while line := file.readline(_MAX_LINE):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(_MAX_LINE)


def parse_increasing(text: str, option: str) -> tuple[int, ...]:
    """Parse `5,10,20`: positive whole numbers, each larger than the one before."""
    numbers = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(numbers) != text.count(",") + 1 or numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise UserError(f"{option} {text}: give increasing numbers separated by commas, for example 5,10,20")
    return tuple(numbers)
