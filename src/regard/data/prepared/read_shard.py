"""First step of preparing a corpus: some consecutive lines of its files → clean texts, with hashes and lengths."""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import map_array
from regard.data.corpus_report import CorpusReport
from regard.data.pair_cleaner import PairCleaner
from regard.data.pair_readers import RawPair
from regard.data.pair_table import PairTable
from regard.files import delete_folder, new_folder
from regard.manifest import DamagedFile, Manifest

_SCHEMA = 1


@dataclass(frozen=True)
class RawShard:
    """Consecutive pairs of a corpus as they are in its files, in a form that is quickly sent to another process."""

    pairs: bytes | list[RawPair]
    """Both sides of all pairs, one per line; or a list, if they are not lines"""
    first_line: int
    """Lines of the corpus before these"""
    max_chars: int

    @classmethod
    def of(cls, pairs: list[RawPair], first_line: int, max_chars: int) -> "RawShard":
        try:
            lines = b"\n".join(chain.from_iterable(pairs))  # type: ignore[arg-type]
        except TypeError:  # a BadLine, or a side that is a str
            return cls(pairs, first_line, max_chars)
        is_lines = lines.count(b"\n") == 2 * len(pairs) - 1  # a cell of a CSV may have several lines
        return cls(lines if is_lines else pairs, first_line, max_chars)

    @property
    def key(self) -> str:
        """Hash of the content: a shard of this content need not be read again"""
        digest = hashlib.sha256(f"{_SCHEMA} {self.first_line} {self.max_chars} ".encode())
        if isinstance(self.pairs, bytes):
            digest.update(self.pairs)
        else:
            digest.update(repr(self.pairs).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()

    def raw_pairs(self) -> Sequence[RawPair]:
        if not isinstance(self.pairs, bytes):
            return self.pairs
        sides = self.pairs.split(b"\n")
        return list(zip(sides[::2], sides[1::2], strict=True))


@dataclass(frozen=True)
class ReadTask:
    """Lines to read and the folder to write."""

    raw: RawShard
    path: Path
    key: str


def read_shard(task: ReadTask) -> None:
    """Clean the pairs of a shard and write them, with what the filters need to know about them."""
    raw = task.raw
    report, lines = CorpusReport(lines=raw.first_line), array("q")
    texts = PairCleaner(raw.max_chars)(raw.raw_pairs(), report, lines)
    table = table_of(texts)
    report.lines -= raw.first_line
    delete_folder(task.path)
    with new_folder(task.path) as folder:
        (folder / "texts").write_bytes("\n".join(texts).encode())
        (folder / "lines").write_bytes(lines.tobytes())
        (folder / "hashes").write_bytes(table.hashes.tobytes())
        (folder / "lengths").write_bytes(table.lengths.tobytes())
        (folder / "order").write_bytes(np.argsort(table.pairs, kind="stable").astype(np.uint32).tobytes())
        write_manifest(folder, key=task.key, pairs=len(table), report=report_facts(report))


def write_manifest(folder: Path, **facts: Any) -> None:
    """Write the manifest of all files of a folder."""
    Manifest.of_folder(folder, sorted(file.name for file in folder.iterdir()), **facts).write(folder)


def find_manifest(folder: Path, key: str) -> Manifest | None:
    """Return the manifest of a complete folder with this key, if there is one."""
    try:
        manifest = Manifest.read(folder)
    except DamagedFile:
        return None
    sizes = {name: (folder / name).stat().st_size for name in manifest.files if (folder / name).is_file()}
    is_complete = sizes == {name: checksum.size for name, checksum in manifest.files.items()}
    return manifest if manifest.facts.get("key") == key and is_complete else None


@dataclass(frozen=True)
class CleanShard:
    """A shard that was read."""

    path: Path
    n_pairs: int
    report: CorpusReport
    checksum: str
    """Of its content"""

    @classmethod
    def open(cls, path: Path, manifest: Manifest) -> "CleanShard":
        checksum = hashlib.sha256(manifest.to_bytes()).hexdigest()
        return cls(path, manifest.facts["pairs"], report_of(manifest.facts["report"]), checksum)

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        return map_array(self.path / "lines", np.int64)

    @cached_property
    def order(self) -> NDArray[np.uint32]:
        """The pairs in the order of their hashes"""
        return map_array(self.path / "order", np.uint32)

    @cached_property
    def table(self) -> PairTable:
        hashes, lengths = map_array(self.path / "hashes", np.int64), map_array(self.path / "lengths", np.int32)
        return PairTable(hashes.reshape(-1, 2), lengths.reshape(-1, 2))

    def texts(self) -> list[str]:
        """Return source, target, source, target …"""
        content = (self.path / "texts").read_bytes().decode()
        return content.split("\n") if self.n_pairs else []


def table_of(texts: Sequence[str]) -> PairTable:
    """Return the hashes and lengths of texts (source, target …), the same in every process."""
    lengths = np.fromiter(map(len, texts), dtype=np.int32, count=len(texts))
    return PairTable(text_hashes(texts).reshape(-1, 2), lengths.reshape(-1, 2))


def text_hashes(texts: Iterable[str]) -> NDArray[np.int64]:
    """Return a hash per text. Of a hundred million pairs two have equal hashes with a probability of 3 in 10,000."""
    blake = hashlib.blake2b
    return np.frombuffer(b"".join([blake(text.encode(), digest_size=8).digest() for text in texts]), dtype=np.int64)


def report_facts(report: CorpusReport) -> dict[str, Any]:
    """Return a report as a value of a manifest."""
    return {"lines": report.lines, "used": report.used, "problems": report.problems}


def report_of(facts: dict[str, Any]) -> CorpusReport:
    """Return the report that `report_facts` stored."""
    problems = {str(problem): (int(count), int(first)) for problem, (count, first) in facts["problems"].items()}
    return CorpusReport(int(facts["lines"]), int(facts["used"]), problems)
