"""The files of a bulk translation: which ones the user means, and what is in them."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.bulk.job_folder import step_folder
from regard.bulk.line_report import LineReport
from regard.bulk.part import LinePart, read_part
from regard.data.data_file import count_lines, decode_any, read_lines
from regard.data.pair_readers import is_pair_file
from regard.data.text_output import check_text_suffix, new_text_file
from regard.errors import UserError
from regard.files import write_atomically
from regard.manifest import read_regular
from regard.paths import check_input_file

_WILDCARDS = "*?["


def find_shards(named: Sequence[Path]) -> list[Path]:
    """Return the files that a user names: files, patterns such as `shards/*.gz`, and all files of a folder.

    Hidden files and those in folders of a folder are left out. Every file must be text, and have a name of its own.
    """
    shards = [path for each in named for path in _expand(each)]
    names = dict[str, Path]()
    for path in shards:
        check_input_file(path, read_once=False)
        check_text_suffix(path)
        if is_pair_file(path):
            raise UserError(f"{path}: is a file of pairs; --output FOLDER translates files of lines")
        if path.name in names:
            raise UserError(f"{path} and {names[path.name]} have the same name; translate them into two folders")
        names[path.name] = path
    return shards


def _expand(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        if not files:
            raise UserError(f"{path}: has no files to translate")
        return files
    if path.exists() or not any(character in str(path) for character in _WILDCARDS):
        return [path]
    base = Path(path.anchor or ".")
    files = sorted(file for file in base.glob(str(path.relative_to(path.anchor))) if file.is_file())
    if not files:
        raise UserError(f"{path}: no file has such a name")
    return files


@dataclass(frozen=True)
class Shard:
    """A file to translate, its translation, and the folder of the translated parts."""

    source: Path
    out: Path
    parts: Path
    n_lines: int
    digest: str
    part_lines: int

    @classmethod
    def read(cls, source: Path, out: Path, parts: Path, part_lines: int) -> "Shard":
        """Count the lines of a file."""
        return cls(source, out, parts, *count_lines(source), part_lines)

    @property
    def n_parts(self) -> int:
        return -(-self.n_lines // self.part_lines)

    def part(self, number: int) -> Path:
        """Return the path of a part, counted from 1."""
        return self.parts / f"part-{number:06d}.gz"

    def missing(self) -> list[int]:
        """Return the numbers of the parts that are not translated."""
        if self.out.exists():
            return []
        return [number for number in range(1, self.n_parts + 1) if not self.part(number).exists()]

    def lines_of(self, number: int) -> int:
        """Return the number of lines of a part."""
        return min(self.part_lines, self.n_lines - (number - 1) * self.part_lines)

    def read_parts(self, numbers: Collection[int]) -> Iterator[tuple[int, LinePart, LineReport]]:
        """Yield some of the parts, in order, with their numbers and reports about lines that are no text."""
        lines = read_lines(self.source)
        for number in range(1, max(numbers, default=0) + 1):
            raw, first = list(islice(lines, self.part_lines)), (number - 1) * self.part_lines + 1
            if number in numbers:
                report = LineReport()
                texts = [_decode(line, first + i, report) for i, line in enumerate(raw)]
                yield number, LinePart(self.part(number), first, texts), report

    def write_part(self, part: LinePart, report: LineReport, rows: Sequence[str]) -> None:
        """Write the translations of a part, after a line with the report about it."""
        if not self._record.exists():
            self._write({"sha256": self.digest})
        with new_text_file(part.out) as file:
            file.write(json.dumps(report.to_json()).encode() + b"\n")
            for row in rows:
                file.write(f"{row}\n".encode())

    # ---- The record of a file: its hash and, when it is translated, the report ----

    @property
    def _record(self) -> Path:
        return self.parts / "record.json"

    def check(self) -> None:
        """Refuse another file of the same name than the one whose translation began, and a translation by others."""
        if self._record.exists():
            step_folder(self.parts)
            if self._read()["sha256"] != self.digest:
                raise UserError(
                    f"{self.source}: has changed since its translation began; choose another --output, or delete "
                    f"{self.parts} and {self.out}"
                )
        elif self.out.exists():
            raise UserError(f"{self.out}: exists, but is not of this job; delete it or choose another --output")

    def report(self) -> LineReport | None:
        """Return the report about a translated file; None: it is not complete."""
        tree = self._read() if self.out.exists() else {}
        return LineReport.from_json(tree["report"]) if "report" in tree else None

    def finish(self) -> None:
        """Write the translation from its parts, unless it is complete, and delete them."""
        parts = [self.part(number) for number in range(1, self.n_parts + 1)]
        if self.report() is None:
            report = LineReport()
            if not self._record.exists():  # of an empty file
                self._write({"sha256": self.digest})
            with new_text_file(self.out) as file:
                for path in parts:
                    lines = read_part(path)
                    report.merge(LineReport.from_json(json.loads(next(lines))))
                    for line in lines:
                        file.write(line + b"\n")
            self._write({"sha256": self.digest, "report": report.to_json()})
        for path in parts:
            path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        try:
            return dict(json.loads(read_regular(self._record)))
        except ValueError:  # of which UserError is one
            raise UserError(f"{self._record}: damaged; delete it and {self.out}, and give the command again") from None

    def _write(self, tree: dict[str, Any]) -> None:
        step_folder(self.parts)
        write_atomically(self._record, json.dumps(tree).encode())


def _decode(raw: bytes, number: int, report: LineReport) -> str:
    """Return a line as text; what is no text is replaced and reported."""
    line, is_text = decode_any(raw)
    report.not_text.add([] if is_text else [f"line {number:,}"])
    return line
