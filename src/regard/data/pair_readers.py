"""Readers of parallel files: each yields the pairs of one format, and says what is wrong with a line that has none."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from regard.data.arrow_tables import TABLE_SUFFIXES, data_files, read_arrow_pairs, table_languages
from regard.data.data_file import BadLine, DataFile, without_compression
from regard.data.translation_memory import memory_languages, read_translation_memory
from regard.errors import UserError

RawPair = tuple[bytes | str, bytes | str] | BadLine
Languages = tuple[str, str] | None

_HEADERS = {("source", "target"), ("src", "tgt")}
_CODES = (
    "af am ar as ay az ba be bg bn bo br bs ca ce co cs cy da de el en eo es et eu fa fi fo fr fy ga gd gl gn gu ha he "
    "hi hr ht hu hy ia id ig is it ja jv ka kk km kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms mt my nb ne nl nn no "
    "ny oc om or pa pl ps pt qu rm ro ru rw sa sd si sk sl sm sn so sq sr st su sv sw ta te tg th ti tk tl tn tr ts tt "
    "ug uk ur uz vi wo xh yi yo zh zu"
)
"""Language codes that the first row of a CSV file may have"""


class Lines(Protocol):
    """A text that is read line by line."""

    path: Path

    def lines(self) -> Iterator[bytes]: ...


def aligned_lines(src: Lines, tgt: Lines) -> Iterator[tuple[bytes, bytes]]:
    """Yield line n of both texts, which must have as many lines."""
    pairs = zip_longest(src.lines(), tgt.lines())
    for n, (left, right) in enumerate(pairs):
        if left is None or right is None:
            more = n + 1 + sum(1 for _ in pairs)
            counts = (n, more) if left is None else (more, n)
            raise UserError(
                f"{src.path} has {counts[0]:,} lines but {tgt.path} has {counts[1]:,}; line n of one must be the "
                "translation of line n of the other"
            )
        yield left, right


def _tsv_pairs(file: DataFile, langs: Languages) -> Iterator[RawPair]:
    for line in file.lines():
        columns = line.split(b"\t")
        if len(columns) == 2:
            yield columns[0], columns[1]
        else:
            yield BadLine("not two tab-separated columns")


def _jsonl_pairs(file: DataFile, langs: Languages) -> Iterator[RawPair]:
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


def _csv_pairs(file: DataFile, langs: Languages) -> Iterator[RawPair]:
    """Yield the rows of two columns; a first row of names or of the two language codes is left out."""
    for number, row in enumerate(_csv_rows(file)):
        if row is None:
            yield BadLine("not a row of CSV")
        elif number == 0 and _is_header(row, langs):
            continue
        elif len(row) == 2:
            yield row[0].encode("utf-8", "surrogateescape"), row[1].encode("utf-8", "surrogateescape")
        else:
            yield BadLine("not two comma-separated columns")


def _csv_rows(file: DataFile) -> Iterator[list[str] | None]:
    """Yield the cells of each row, None for a row that is not CSV; invalid UTF-8 is kept as surrogates."""
    with file.open() as content:
        text = io.TextIOWrapper(content, encoding="utf-8", errors="surrogateescape", newline="")
        rows = csv.reader(text)
        while True:
            try:
                yield next(rows)
            except StopIteration:
                break
            except csv.Error:
                yield None
        text.detach()


def _is_header(row: list[str], langs: Languages) -> bool:
    names = tuple(cell.strip("\ufeff ").lower() for cell in row)
    are_codes = len(names) == len(set(names)) == 2 and set(names) <= set(_CODES.split())
    return names in _HEADERS or names == langs or are_codes


def _zip_pairs(file: DataFile, langs: Languages) -> Iterator[RawPair]:
    """Yield the pairs of a zip archive as OPUS offers it: two members with one name, ending in the languages."""
    try:
        with file.on_disk() as path, closing(zipfile.ZipFile(path)) as archive:
            src, tgt = _find_members(archive.namelist(), file.path, langs)
            yield from aligned_lines(_Member(archive, file.path, src), _Member(archive, file.path, tgt))
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{file.path}: not a complete zip archive that can be read ({error})") from None


class _Member:
    """A file in a zip archive."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, name: str) -> None:
        self.archive, self.name, self.path = archive, name, path / name

    def lines(self) -> Iterator[bytes]:
        with self.archive.open(self.name) as file:
            for line in file:
                yield line.removesuffix(b"\n")


def _find_members(names: list[str], path: Path, langs: Languages) -> tuple[str, str]:
    """Return the names of the source and the target, such as Tatoeba.en-fr.en and Tatoeba.en-fr.fr."""
    groups: dict[str, list[str]] = {}
    for name in names:
        stem, _, language = name.rpartition(".")
        if re.fullmatch(r"[a-z]{2,3}([_-]\w+)?", language, re.IGNORECASE) and language not in ("xml", "ids", "txt"):
            groups.setdefault(stem, []).append(language)
    for stem, languages in groups.items():
        if langs is not None and set(langs) <= set(languages):
            return f"{stem}.{langs[0]}", f"{stem}.{langs[1]}"
        if langs is None and len(languages) == 2:
            order = sorted(languages, key=lambda code: (f"-{code}" in stem, code))  # en-fr: en is the source
            return f"{stem}.{order[0]}", f"{stem}.{order[1]}"
    wanted = " and ".join(f".{code}" for code in langs or ()) or "two languages, such as .en and .fr"
    raise UserError(f"{path}: no two members of one name that end in {wanted}; unpack it and give two files")


READERS: dict[str, Callable[[DataFile, Languages], Iterator[RawPair]]] = {
    ".tsv": _tsv_pairs,
    ".csv": _csv_pairs,
    ".jsonl": _jsonl_pairs,
    ".tmx": read_translation_memory,
    ".xlf": read_translation_memory,
    ".xliff": read_translation_memory,
    ".zip": _zip_pairs,
    **dict.fromkeys(TABLE_SUFFIXES, read_arrow_pairs),
}
"""Formats of a single file, by suffix"""


def is_pair_file(path: Path) -> bool:
    """Return whether a file of that name, or a folder, holds both sides."""
    return without_compression(path).suffix.lower() in READERS or path.is_dir()


def split_languages(codes: str) -> tuple[str, str]:
    """Return the two language codes of a text such as en-fr."""
    src, _, tgt = codes.partition("-")
    if not src or not tgt:
        raise ValueError("write two codes with a hyphen, for example en-fr")
    return src, tgt


def named_languages(path: Path) -> tuple[str, str] | None:
    """Return the language codes that a file of pairs contains, such as ("en", "fr"); None: it contains none."""
    if path.is_dir():
        path = data_files(path)[0]
    if not path.is_file():  # a pipe can be read only once
        return None
    file, languages = DataFile(path), None
    match without_compression(path).suffix.lower():
        case ".tmx" | ".xlf" | ".xliff":
            languages = memory_languages(file)
        case ".zip" if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                src, tgt = _find_members(archive.namelist(), path, None)
            languages = src.rpartition(".")[2], tgt.rpartition(".")[2]
        case suffix if suffix in TABLE_SUFFIXES:
            languages = table_languages(path)
        case ".jsonl":
            with suppress(ValueError, KeyError, TypeError, RecursionError, StopIteration):
                first, second = tuple(json.loads(next(file.lines()))["translation"])[:2]
                languages = first, second
    codes = [re.split("[-_]", language)[0].lower() for language in languages or ()]
    return (codes[0], codes[1]) if len(set(codes)) == 2 and all(map(_is_code, codes)) else None


def _is_code(text: str) -> bool:
    return 2 <= len(text) <= 3 and text.isalpha()


def find_languages(files: Sequence[Path]) -> tuple[str, str]:
    """Return the languages of files such as train.en and train.fr.gz, those in a file of pairs, or ("src", "tgt")."""
    if len(files) == 1 and (named := named_languages(files[0])):
        return named
    suffixes = [without_compression(path).suffix.removeprefix(".") for path in files]
    if len(suffixes) == 2 and all(2 <= len(s) <= 3 and s.isalpha() for s in suffixes) and len(set(suffixes)) == 2:
        return suffixes[0], suffixes[1]
    return "src", "tgt"
