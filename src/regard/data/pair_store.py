"""Token ids in memory-mapped files: built once a corpus and tokenizer, found again by content."""

import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Ragged
from regard.data.corpus import Corpus, CorpusReport, SentencePair
from regard.files import new_folder, remove_leftovers, write_atomically
from regard.text.tokenizer import Tokenizer, TokenizerPair

_SCHEMA = 2
_CHUNK = 10_000  # pairs tokenised at a time


@dataclass(frozen=True)
class PairStore:
    """Pairs of id sequences, without specials. `ids` arrays may be larger than memory; offsets are not."""

    src_ids: NDArray[Any]
    src_ends: NDArray[np.int64]
    tgt_ids: NDArray[Any]
    tgt_ends: NDArray[np.int64]
    numbers: NDArray[np.int64]
    """Which of the corpus's clean pairs each one is, counted from 0"""
    report: CorpusReport
    fingerprint: str

    def __len__(self) -> int:
        return len(self.src_ends) - 1

    def src(self, rows: NDArray[np.int64]) -> Ragged:
        return _gather(self.src_ids, self.src_ends, rows)

    def tgt(self, rows: NDArray[np.int64]) -> Ragged:
        return _gather(self.tgt_ids, self.tgt_ends, rows)

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.diff(self.src_ends), np.diff(self.tgt_ends)


def cache_folder() -> Path:
    """Where stores live: $REGARD_CACHE, or the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard"
    return Path(os.environ.get("REGARD_CACHE", default))


def open_store(corpus: Corpus, tokenizers: TokenizerPair, max_tokens: int, folder: Path | None = None) -> PairStore:
    """The store of this corpus under these tokenizers; tokenises the corpus if nobody did before."""

    def build(path: Path, report: CorpusReport) -> None:
        _write(path, _encode(corpus.pairs(report), tokenizers, max_tokens, report), tokenizers)

    key = f"{_SCHEMA} {corpus.fingerprint()} {tokenizers.fingerprint} {max_tokens}"
    return _read(find_or_build(key, build, folder), tokenizers)


@dataclass(frozen=True)
class CacheEntry:
    """A folder of the cache, and what was counted when it was built."""

    path: Path
    fingerprint: str
    report: CorpusReport

    def ids(self, name: str, tokenizer: Tokenizer) -> NDArray[Any]:
        """The ids of a file, mapped into memory rather than read."""
        type_ = id_type(tokenizer)
        if (self.path / name).stat().st_size == 0:  # an empty file cannot be mapped
            return np.empty(0, dtype=type_)
        return np.memmap(self.path / name, dtype=type_, mode="r")


def find_or_build(
    key: str, build: Callable[[Path, CorpusReport], None], folder: Path | None = None, unit: str = "pairs"
) -> CacheEntry:
    """What `build` wrote under this key, now or before; several processes may ask at once."""
    fingerprint = hashlib.sha256(key.encode()).hexdigest()
    path = (folder or cache_folder()) / "corpora" / fingerprint[:32]
    if not (path / "manifest.json").is_file():
        remove_leftovers(path.parent)
        with new_folder(path) as temporary:
            report = CorpusReport(unit=unit)
            build(temporary, report)
            manifest = {"lines": report.lines, "used": report.used, "problems": report.problems}
            write_atomically(temporary / "manifest.json", json.dumps(manifest).encode())
    manifest = json.loads((path / "manifest.json").read_bytes())
    problems = {kind: (int(count), int(first)) for kind, (count, first) in manifest["problems"].items()}
    return CacheEntry(path, fingerprint, CorpusReport(manifest["lines"], manifest["used"], problems, unit))


def _encode(
    pairs: Iterator[SentencePair], tokenizers: TokenizerPair, max_tokens: int, report: CorpusReport
) -> Iterator[tuple[int, list[int], list[int]]]:
    # The report counts lines as `pairs` reads them, chunk by chunk; a long pair's line is therefore numbered here.
    numbered = ((report.lines, number, pair) for number, pair in enumerate(pairs))
    while chunk := list(islice(numbered, _CHUNK)):
        src = tokenizers.src.encode([pair[0] for *_, pair in chunk])
        tgt = tokenizers.tgt.encode([pair[1] for *_, pair in chunk])
        for (line, number, _), s, t in zip(chunk, src, tgt, strict=True):
            if max(len(s), len(t)) > max_tokens:
                report.used -= 1
                report.add(f"over {max_tokens:,} tokens", line)
            else:
                yield number, s, t


def _write(folder: Path, pairs: Iterator[tuple[int, list[int], list[int]]], tokenizers: TokenizerPair) -> None:
    numbers = array("q")
    ends = (array("q", [0]), array("q", [0]))  # eight bytes a pair, however large the corpus
    types = (id_type(tokenizers.src), id_type(tokenizers.tgt))
    with (folder / "src.ids").open("wb") as src_file, (folder / "tgt.ids").open("wb") as tgt_file:
        for number, *pair in pairs:
            numbers.append(number)
            for ids, end, type_, file in zip(pair, ends, types, (src_file, tgt_file), strict=True):
                file.write(np.asarray(ids, dtype=type_).tobytes())
                end.append(end[-1] + len(ids))
    (folder / "numbers").write_bytes(numbers.tobytes())
    for name, end in zip(("src", "tgt"), ends, strict=True):
        (folder / f"{name}.ends").write_bytes(end.tobytes())


def _read(cached: CacheEntry, tokenizers: TokenizerPair) -> PairStore:
    def side(name: str, tokenizer: Tokenizer) -> tuple[NDArray[Any], NDArray[np.int64]]:
        ends = np.fromfile(cached.path / f"{name}.ends", dtype=np.int64)
        return cached.ids(f"{name}.ids", tokenizer), ends

    numbers = np.fromfile(cached.path / "numbers", dtype=np.int64)
    sides = (*side("src", tokenizers.src), *side("tgt", tokenizers.tgt))
    return PairStore(*sides, numbers, cached.report, cached.fingerprint)


def pair_store_from(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> PairStore:
    """A small store in memory, for corpora that the package makes itself."""

    def side(rows: Sequence[Sequence[int]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        ragged = Ragged.of(rows)
        return ragged.ids, np.concatenate([[0], np.cumsum(ragged.lengths)])

    return PairStore(*side(src), *side(tgt), np.arange(len(src)), CorpusReport(len(src), len(src)), "memory")


def _gather(ids: NDArray[Any], ends: NDArray[np.int64], rows: NDArray[np.int64]) -> Ragged:
    starts, lengths = ends[rows], ends[rows + 1] - ends[rows]
    # Where each id of the result comes from: its row's start, plus its place in the row.
    before = np.cumsum(lengths) - lengths
    places = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return Ragged(ids[places], lengths)


def id_type(tokenizer: Tokenizer) -> type[np.unsignedinteger[Any]]:
    return np.uint16 if tokenizer.size <= 1 << 16 else np.uint32
