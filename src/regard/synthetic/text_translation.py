"""Translate all lines of a file in numbered parts, each a file of its own, so that a killed job goes on where it was.

A part is written when it is complete and depends on its lines alone, so parts can be made in any order.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from regard.bulk.job_folder import job_folder
from regard.bulk.line_translator import PartResult, TranslationWork
from regard.bulk.part import PART_LINES, LinePart, damaged_part, read_part
from regard.bulk.translated_line import TranslatedLine
from regard.bulk.worker_pool import translate_parts
from regard.bulk.workers import Workers
from regard.data.corpus_report import CorpusReport
from regard.data.data_file import BadLine, DataFile, count_lines, decode_line
from regard.data.parallel_corpus import Corpus
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_output import new_text_file
from regard.errors import UserError
from regard.paths import check_input_file
from regard.pipelines.engine import TORCH
from regard.text.clean import clean


@dataclass(frozen=True)
class TextTranslation:
    """A file to translate, the model or the ensemble that translates it, and the folder of the parts."""

    models: tuple[Path, ...]
    text: Path
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `Translator.translate`: beam, sampling, n_best …"""
    part_lines: int = PART_LINES
    engine: str = TORCH
    workers: Workers = field(default_factory=Workers)

    def __post_init__(self) -> None:
        self.work.check()
        check_text(self.text)

    @property
    def work(self) -> TranslationWork:
        return TranslationWork(models=self.models, engine=self.engine, options={"split": True, **self.options})

    def run(self, progress: ReadingProgress = no_progress) -> "TranslatedFile":
        """Translate the parts that are missing; return all translations."""
        n_lines, digest = count_lines(self.text)
        facts = {**self.work.facts(), "options": dict(self.options), "text": digest, "lines per part": self.part_lines}
        done = TranslatedFile(self.folder, n_lines, -(-n_lines // self.part_lines))
        with job_folder(self.folder, facts):
            missing = [number for number in range(1, done.n_parts + 1) if not done.part(number).exists()]
            if missing:
                self._translate_missing(done, missing, n_lines, progress)
        return done

    def _translate_missing(
        self, done: "TranslatedFile", missing: list[int], n_lines: int, progress: ReadingProgress
    ) -> None:
        """Write the parts that are missing."""
        lines = dict[Path, list[str | BadLine]]()  # of the parts that are being translated
        n_done = n_lines - sum(min(self.part_lines, n_lines - (number - 1) * self.part_lines) for number in missing)

        def parts() -> Iterator[LinePart]:
            texts = _read_texts(self.text)
            for number in range(1, done.n_parts + 1):
                all_lines = list(islice(texts, self.part_lines))
                if number in wanted:
                    out, first = done.part(number), (number - 1) * self.part_lines + 1
                    lines[out] = all_lines
                    yield LinePart(out, first, [line for line in all_lines if isinstance(line, str)])

        def show(n_more: int) -> None:
            progress("translated", n_done + n_more, n_lines)

        wanted = set(missing)
        with self.workers.open(self.work, len(missing), show) as pool:
            for part, result in translate_parts(pool, parts(), show):
                _write_part(part.out, lines[part.out], result)
                n_done += len(lines.pop(part.out))
                show(0)


def _write_part(out: Path, lines: list[str | BadLine], result: PartResult) -> None:
    """Write a row for each line, with or without a translation."""
    rows = iter(result.rows)
    with new_text_file(out) as file:
        for line in lines:
            row = TranslatedLine("", (), line.problem).to_json() if isinstance(line, BadLine) else next(rows)
            file.write(f"{row}\n".encode())


@dataclass(frozen=True)
class TranslatedFile:
    """The translations of a file, in numbered parts."""

    folder: Path
    n_lines: int
    n_parts: int

    def part(self, number: int) -> Path:
        """Return the path of a part, counted from 1."""
        return self.folder / f"part-{number:06d}.jsonl.gz"

    def __iter__(self) -> Iterator[TranslatedLine]:
        for number in range(1, self.n_parts + 1):
            path = self.part(number)
            try:
                yield from map(TranslatedLine.from_json, read_part(path))
            except json.JSONDecodeError:
                raise damaged_part(path) from None


def check_text(path: Path) -> None:
    """Raise a UserError if a file has no line that can be translated."""
    check_input_file(path, read_once=False)
    reason = ""
    for line in _read_texts(path):
        if isinstance(line, str):
            return
        reason = reason or f" ({line.problem} in line 1)"
    raise UserError(f"{path}: has no line to translate{reason}; give a file with one sentence per line")


def _read_texts(path: Path) -> Iterator[str | BadLine]:
    """Yield the clean lines of a file; a line that cannot be used is a BadLine."""
    report = CorpusReport()
    for number, raw in enumerate(DataFile(path).lines(), start=1):
        line = decode_line(raw, number, report, first=number == 1)
        text = line if isinstance(line, BadLine) else clean(line)
        if text == "":
            yield BadLine("empty line")
        elif isinstance(text, str) and len(text) > Corpus.max_chars:
            yield BadLine(f"over {Corpus.max_chars:,} characters")
        else:
            yield text
