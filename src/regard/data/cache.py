"""The cache folder, and tokenised corpora in it that are found again by content."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus_report import CorpusReport
from regard.files import new_folder, remove_leftovers, write_atomically
from regard.text.tokenizer import Tokenizer


def cache_folder() -> Path:
    """Return $REGARD_CACHE, or the folder `regard` in the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard"
    return Path(os.environ.get("REGARD_CACHE", default))


@dataclass(frozen=True)
class CacheEntry:
    """A tokenised corpus in the cache, and the report from when it was built."""

    path: Path
    fingerprint: str
    report: CorpusReport

    def ids(self, name: str, tokenizer: Tokenizer) -> NDArray[Any]:
        """Return the ids in a file of the entry, memory-mapped."""
        type_ = id_type(tokenizer)
        if (self.path / name).stat().st_size == 0:  # an empty file cannot be mapped
            return np.empty(0, dtype=type_)
        return np.memmap(self.path / name, dtype=type_, mode="r")


def find_or_build(
    key: str, build: Callable[[Path], CorpusReport], folder: Path | None = None, unit: str = "pairs"
) -> CacheEntry:
    """Return the entry for `key`; if it does not exist, `build` writes its files.

    Several processes may do this at once: each builds its own copy, and the first to finish is kept.
    """
    fingerprint = hashlib.sha256(key.encode()).hexdigest()
    path = (folder or cache_folder()) / "corpora" / fingerprint[:32]
    if not (path / "manifest.json").is_file():
        remove_leftovers(path.parent)
        with new_folder(path) as temporary:
            report = build(temporary)
            manifest = {"lines": report.lines, "used": report.used, "problems": report.problems}
            write_atomically(temporary / "manifest.json", json.dumps(manifest).encode())
    manifest = json.loads((path / "manifest.json").read_bytes())
    problems = {problem: (int(count), int(first)) for problem, (count, first) in manifest["problems"].items()}
    return CacheEntry(path, fingerprint, CorpusReport(manifest["lines"], manifest["used"], problems, unit))


def id_type(tokenizer: Tokenizer) -> type[np.unsignedinteger[Any]]:
    """Return the smallest integer type that holds all ids."""
    return np.uint16 if tokenizer.size <= 1 << 16 else np.uint32
