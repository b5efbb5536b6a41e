"""Preparing a corpus: its steps, each shard of which is done once, however often the job is interrupted."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus_report import CorpusReport
from regard.data.data_file import DataFile
from regard.data.pair_rules import FilterConfig
from regard.data.parallel_corpus import Corpus
from regard.data.prepared.encode_shard import EncodeTask, encode_shard
from regard.data.prepared.filter_shards import KEPT, PROBLEMS, write_reasons
from regard.data.prepared.read_shard import CleanShard, RawShard, ReadTask, find_manifest, read_shard
from regard.data.prepared.sample_shard import SampleTask, sample_shard
from regard.data.prepared.task_pool import TaskPool
from regard.data.reading_progress import ReadingProgress
from regard.files import delete_folder, temporary_path
from regard.manifest import Manifest
from regard.text.tokenizer import TokenizerPair

SHARDS, WORK, TOKENIZER = "shards", "work", "tokenizer"
SHARD = 1 << 17  # lines of the files per shard


@dataclass(frozen=True)
class CleanPairs:
    """The pairs of a corpus that was read in shards, and which of them the filters keep."""

    shards: tuple[CleanShard, ...]
    reasons: Path
    """One byte per pair: why a filter leaves it out"""

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Position of each shard's first pair among all pairs, and the number of all"""
        return np.cumsum([0, *(shard.n_pairs for shard in self.shards)])

    @cached_property
    def kept_starts(self) -> NDArray[np.int64]:
        """The same, among the pairs that are kept"""
        return np.cumsum([0, *(int((self.reasons_of(i) == KEPT).sum()) for i in range(len(self.shards)))])

    def __len__(self) -> int:
        """The number of pairs that are kept"""
        return int(self.kept_starts[-1])

    def reasons_of(self, shard: int) -> NDArray[np.uint8]:
        n = self.shards[shard].n_pairs
        return np.fromfile(self.reasons, dtype=np.uint8, count=n, offset=int(self.starts[shard]))

    def report(self) -> CorpusReport:
        """Return what was read and left out."""
        report = CorpusReport()
        for i, shard in enumerate(self.shards):
            reasons, of_shard = self.reasons_of(i), shard.report.copy()
            for code, problem in PROBLEMS.items():
                of_shard.leave_out(problem, shard.lines[reasons == code].tolist())
            report.include(of_shard)
        return report


class PreparationJob:
    """The steps of a preparation in a folder. Each can be interrupted and repeated.

    A shard whose input and options are the same as before is not worked on again.
    """

    def __init__(self, folder: Path, pool: TaskPool, progress: ReadingProgress) -> None:
        self.folder, self.pool, self.progress = folder, pool, progress

    def read(self, corpora: Sequence[Corpus], filter_: FilterConfig) -> CleanPairs:
        """Read, clean and filter all files."""
        (self.folder / WORK).mkdir(parents=True, exist_ok=True)
        done: list[tuple[Path, str]] = []
        for _ in self.pool.run(read_shard, self._read_tasks(corpora, done)):
            pass
        for path in (*(self.folder / WORK).glob("[0-9]*"), *(self.folder / SHARDS).glob("[0-9]*")):
            if int(path.name.removesuffix(".encoded")) >= len(done):  # of longer files, before
                delete_folder(path)
        shards = tuple(CleanShard.open(path, _found(path, key)) for path, key in done)
        name = digest(filter_.model_dump_json(), *(shard.checksum for shard in shards))
        reasons = self.folder / WORK / f"reasons-{name}"
        if not reasons.exists():
            temporary = temporary_path(reasons)
            write_reasons(shards, filter_, temporary, self.progress)
            temporary.rename(reasons)
        return CleanPairs(shards, reasons)

    def _read_tasks(self, corpora: Sequence[Corpus], done: list[tuple[Path, str]]) -> Iterator[ReadTask]:
        """Yield the shards that were not read before; `done` gets the paths and keys of all."""
        pairs = chain.from_iterable(corpus.raw_pairs(list(map(DataFile, corpus.data_paths))) for corpus in corpora)
        n_lines = 0
        while block := list(islice(pairs, SHARD)):
            raw = RawShard.of(block, n_lines, corpora[0].max_chars)
            task = ReadTask(raw, self.folder / WORK / f"{len(done):05}", raw.key)
            done.append((task.path, task.key))
            n_lines += len(block)
            self.progress("reading", n_lines)
            if find_manifest(task.path, task.key) is None:
                yield task

    def sample(self, pairs: CleanPairs, rows: NDArray[np.int64]) -> list[str]:
        """Return the texts of some of the pairs that are kept: source, target, source, target … `rows` increase."""
        starts, limits = pairs.kept_starts.tolist(), np.searchsorted(rows, pairs.kept_starts).tolist()
        tasks = [
            SampleTask(shard, pairs.reasons, int(pairs.starts[i]), rows[limits[i] : limits[i + 1]] - starts[i])
            for i, shard in enumerate(pairs.shards)
            if limits[i + 1] > limits[i]
        ]
        return [text for texts in self.pool.run(sample_shard, tasks) for text in texts]

    def encode(self, pairs: CleanPairs, tokenizers: TokenizerPair, max_tokens: int) -> list[Manifest]:
        """Encode all shards with tokenizers that are in the folder, and return the manifests of the shards."""
        (self.folder / SHARDS).mkdir(exist_ok=True)
        tasks = list(self._encode_tasks(pairs, tokenizers.fingerprint, max_tokens))
        missing = [task for task in tasks if find_manifest(task.path, task.key) is None]
        total = int(pairs.starts[-1])
        done = total - sum(task.shard.n_pairs for task in missing)
        for task, _ in zip(missing, self.pool.run(encode_shard, missing), strict=True):
            done += task.shard.n_pairs
            self.progress("tokenising", done, total)
        return [_found(task.path, task.key) for task in tasks]

    def _encode_tasks(self, pairs: CleanPairs, fingerprint: str, max_tokens: int) -> Iterator[EncodeTask]:
        tokenizers = self.folder / TOKENIZER
        for shard, first in zip(pairs.shards, pairs.starts.tolist(), strict=False):
            key = digest(shard.checksum, pairs.reasons.name, fingerprint, max_tokens)
            path, work = self.folder / SHARDS / shard.path.name, shard.path.with_suffix(".encoded")
            yield EncodeTask(shard, path, work, key, pairs.reasons, first, tokenizers, fingerprint, max_tokens)


def _found(path: Path, key: str) -> Manifest:
    manifest = find_manifest(path, key)
    assert manifest is not None, path
    return manifest


def digest(*values: Any) -> str:
    """Return a short hash of values."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:32]
