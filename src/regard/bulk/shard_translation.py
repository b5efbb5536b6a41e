"""Translate files of lines into a folder: every file in parts, by several workers, in a job that can be continued.

The folder gets a file of the same name for each file, written when all its parts are done. Until then they are in the
hidden folder `.parts`, with what the job depends on. Only this process writes, so that a worker that dies at any moment
leaves nothing behind, and each line is there exactly once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.bulk.job_folder import job_folder
from regard.bulk.line_report import LineReport
from regard.bulk.line_translator import PartResult, TranslationWork
from regard.bulk.part import PART_LINES, LinePart
from regard.bulk.shards import Shard
from regard.bulk.worker_pool import translate_parts
from regard.bulk.workers import Workers
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.errors import UserError
from regard.files import remove_leftovers

PARTS = ".parts"


@dataclass(frozen=True)
class ShardTranslation:
    """Files to translate, what translates them, and the folder of the translations."""

    work: TranslationWork
    sources: tuple[Path, ...]
    folder: Path
    workers: Workers = field(default_factory=Workers)
    part_lines: int = PART_LINES

    def __post_init__(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"--output {self.folder}: is a file; name a folder for the translations of several files")
        if source := next((each for each in self.sources if each.resolve().parent == self.folder.resolve()), None):
            raise UserError(f"--output {self.folder}: is the folder of {source}; choose another")

    def run(self, progress: ReadingProgress = no_progress) -> LineReport:
        """Translate what is missing; return a report about all files."""
        facts = {**self.work.facts(), "lines per part": self.part_lines}
        with job_folder(self.folder / PARTS, facts):
            remove_leftovers(self.folder)
            shards = list(self._read_shards(progress))
            for shard in shards:
                shard.check()
            _Run(self, shards, progress).translate()
            report = LineReport()
            for shard in shards:
                report.merge(shard.report() or LineReport(), f"{shard.source}, ")
            return report

    def _read_shards(self, progress: ReadingProgress) -> Iterator[Shard]:
        n_lines = 0
        for source in self.sources:
            shard = Shard.read(source, self.folder / source.name, self.folder / PARTS / source.name, self.part_lines)
            n_lines += shard.n_lines
            progress("read", n_lines)
            yield shard


class _Run:
    """The part of a job that is done now."""

    def __init__(self, job: ShardTranslation, shards: list[Shard], progress: ReadingProgress) -> None:
        self.job, self.shards, self.progress = job, shards, progress
        self.missing = {shard.out: set(shard.missing()) for shard in shards}
        """The numbers of the parts to translate"""
        self.n_lines = sum(shard.n_lines for shard in shards)
        self.n_done = self.n_lines - sum(shard.lines_of(n) for shard in shards for n in self.missing[shard.out])
        self.reading = dict[Path, tuple[Shard, int, LineReport]]()
        """The parts that are being translated: their file, number, and what was found when their lines were read"""

    def translate(self) -> None:
        """Translate all parts that are missing, and put each file together when its parts are complete."""
        if n_parts := sum(map(len, self.missing.values())):
            with self.job.workers.open(self.job.work, n_parts, self._show) as pool:
                for part, result in translate_parts(pool, self._parts(), self._show):
                    self._write(part, result)
        for shard in self.shards:  # also those that are empty, or were complete before
            shard.finish()

    def _write(self, part: LinePart, result: PartResult) -> None:
        """Write a part and, if it was the last one that was missing, the whole file."""
        shard, number, report = self.reading.pop(part.out)
        report.merge(result.report)
        shard.write_part(part, report, result.rows)
        self.missing[shard.out].remove(number)
        self.n_done += len(part.lines)
        self._show(0)
        if not self.missing[shard.out]:
            shard.finish()

    def _show(self, n_more: int) -> None:
        self.progress("translated", self.n_done + n_more, self.n_lines)

    def _parts(self) -> Iterator[LinePart]:
        """Read the parts to translate, one at a time."""
        for shard in self.shards:
            for number, part, report in shard.read_parts(set(self.missing[shard.out])):
                self.reading[part.out] = shard, number, report
                yield part
