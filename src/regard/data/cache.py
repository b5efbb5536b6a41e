"""Tokenised corpora in the cache folder, found again by content."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus_report import CorpusReport
from regard.files import cache_folder, delete_folder, new_folder, remove_leftovers
from regard.manifest import DamagedFile, Manifest
from regard.text.tokenizer import Tokenizer

Warn = Callable[[str], None]

_ATTEMPTS = 3


def no_warning(line: str) -> None:
    """Ignore a warning."""


@dataclass(frozen=True)
class CacheEntry:
    """A tokenised corpus in the cache, and the report from when it was built."""

    path: Path
    fingerprint: str
    report: CorpusReport

    def ids(self, name: str, tokenizer: Tokenizer) -> NDArray[Any]:
        """Return the ids in a file of the entry, memory-mapped."""
        return map_array(self.path / name, id_type(tokenizer))


def find_or_build(
    key: str,
    build: Callable[[Path], CorpusReport],
    folder: Path | None = None,
    unit: str = "pairs",
    warn: Warn = no_warning,
) -> CacheEntry:
    """Return the entry for `key`; if it does not exist or is damaged, `build` writes its files.

    Several processes, on several machines, may do this at once: each builds its own copy, and the first to finish is
    kept. `warn` is called with a line about a damaged entry.
    """
    fingerprint = hashlib.sha256(key.encode()).hexdigest()
    path = (folder or cache_folder()) / "corpora" / fingerprint[:32]
    for _ in range(_ATTEMPTS):
        if path.exists():
            try:
                return _open(path, fingerprint, unit)
            except DamagedFile as error:
                warn(f"the cached corpus is damaged and tokenised again: {error}")
                delete_folder(path)
        remove_leftovers(path.parent)
        with new_folder(path) as temporary:
            report = build(temporary)
            facts = {"lines": report.lines, "used": report.used, "problems": report.problems}
            names = sorted(file.name for file in temporary.iterdir())
            Manifest.of_folder(temporary, names, key=fingerprint, report=facts).write(temporary)
    return _open(path, fingerprint, unit)


def _open(path: Path, fingerprint: str, unit: str) -> CacheEntry:
    """Verify an entry and return it."""
    manifest = Manifest.read(path)
    if manifest.facts.get("key") != fingerprint:
        raise DamagedFile(f"{path}: holds another corpus")
    manifest.check(path)
    facts = manifest.facts["report"]
    problems = {problem: (int(count), int(first)) for problem, (count, first) in facts["problems"].items()}
    return CacheEntry(path, fingerprint, CorpusReport(facts["lines"], facts["used"], problems, unit))


def id_type(tokenizer: Tokenizer) -> type[np.unsignedinteger[Any]]:
    """Return the smallest integer type that holds all ids."""
    return np.uint16 if tokenizer.size <= 1 << 16 else np.uint32


def map_array(path: Path, type_: type[np.integer[Any]]) -> NDArray[Any]:
    """Return the numbers in a file, memory-mapped."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype=type_)
    return np.memmap(path, dtype=type_, mode="r")
