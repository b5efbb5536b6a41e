"""Tokenised sentence pairs in memory-mapped files."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import CacheEntry, Warn, find_or_build, id_type, map_array, no_warning
from regard.data.corpus_report import CorpusReport
from regard.data.parallel_corpus import CorpusPart, ParsedCorpus
from regard.text.bulk_encoder import BulkEncoder
from regard.text.ragged import Ragged
from regard.text.tokenizer import Tokenizer, TokenizerPair

_SCHEMA = 3
_CHUNK = 10_000  # pairs tokenised at a time


@dataclass(frozen=True)
class IdPairs:
    """Pairs of id sequences without special tokens. All arrays may be memory-mapped."""

    src_ids: NDArray[Any]
    src_ends: NDArray[Any]
    """How many ids there are up to the end of each sequence, starting with 0"""
    tgt_ids: NDArray[Any]
    tgt_ends: NDArray[Any]

    def __len__(self) -> int:
        return len(self.src_ends) - 1

    def src(self, rows: NDArray[np.int64]) -> Ragged:
        return Ragged.gather(self.src_ids, self.src_ends, rows)

    def tgt(self, rows: NDArray[np.int64]) -> Ragged:
        return Ragged.gather(self.tgt_ids, self.tgt_ends, rows)

    def lengths(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of source and of target tokens of pairs."""
        src, tgt = (ends[rows + 1] - ends[rows] for ends in (self.src_ends, self.tgt_ends))
        return src.astype(np.int64), tgt.astype(np.int64)


@dataclass(frozen=True)
class PairStore(IdPairs):
    """The tokenised pairs of a corpus."""

    numbers: NDArray[np.int64]
    """Index of each pair among the clean pairs of the corpus, from 0; pairs that are too long are not in the store"""
    reports: tuple[CorpusReport, ...]
    """Of each part of the corpus"""
    fingerprint: str

    @property
    def report(self) -> CorpusReport:
        """Of all parts together"""
        report = CorpusReport()
        for part in self.reports:
            report.include(part)
        return report

    def part_rows(self, part: CorpusPart) -> slice:
        """Return the rows of the pairs of a part of the corpus."""
        return slice(*np.searchsorted(self.numbers, [part.start, part.stop]).tolist())


def open_store(
    corpus: ParsedCorpus,
    tokenizers: TokenizerPair,
    max_tokens: int,
    folder: Path | None = None,
    warn: Warn = no_warning,
) -> PairStore:
    """Return the tokenised corpus from the cache (by default `cache_folder()`); tokenise it if it is not there.

    Pairs with more than `max_tokens` tokens on a side are left out. `warn` is called if the cache is damaged.
    """

    def build(path: Path) -> CorpusReport:
        _write(path, _encode(corpus, tokenizers, max_tokens), tokenizers)
        return corpus.report

    key = f"{_SCHEMA} {corpus.fingerprint} {tokenizers.fingerprint} {max_tokens}"
    return _read(find_or_build(key, build, folder, warn=warn), tokenizers, corpus, max_tokens)


def _encode(
    corpus: ParsedCorpus, tokenizers: TokenizerPair, max_tokens: int
) -> Iterator[tuple[NDArray[np.int64], Ragged, Ragged]]:
    """Yield indices, source ids and target ids of the pairs that are not too long."""
    encode_src = BulkEncoder(tokenizers.src)
    encode_tgt = encode_src if tokenizers.src is tokenizers.tgt else BulkEncoder(tokenizers.tgt)
    chunks = ((part, start) for part in corpus.parts for start in range(part.start, part.stop, _CHUNK))
    for part, start in chunks:
        indices = np.arange(start, min(start + _CHUNK, part.stop))
        texts = list(corpus.texts.slice(2 * start, 2 * (start + len(indices))))
        src, tgt = encode_src([part.prefix + text for text in texts[::2]]), encode_tgt(texts[1::2])
        fits = np.maximum(src.lengths, tgt.lengths) <= max_tokens
        yield indices[fits], src.select(fits), tgt.select(fits)


def _write(folder: Path, chunks: Iterator[tuple[NDArray[np.int64], Ragged, Ragged]], tokenizers: TokenizerPair) -> None:
    numbers = array("q")
    ends = (array("q", [0]), array("q", [0]))  # 8 bytes per pair and side
    types = (id_type(tokenizers.src), id_type(tokenizers.tgt))
    with (folder / "src.ids").open("wb") as src_file, (folder / "tgt.ids").open("wb") as tgt_file:
        for indices, *sides in chunks:
            numbers.frombytes(indices.tobytes())
            for side, end, type_, file in zip(sides, ends, types, (src_file, tgt_file), strict=True):
                file.write(side.ids.astype(type_).tobytes())
                end.frombytes((end[-1] + np.cumsum(side.lengths)).tobytes())
    (folder / "numbers").write_bytes(numbers.tobytes())
    for name, end in zip(("src", "tgt"), ends, strict=True):
        (folder / f"{name}.ends").write_bytes(end.tobytes())


def _read(entry: CacheEntry, tokenizers: TokenizerPair, corpus: ParsedCorpus, max_tokens: int) -> PairStore:
    def side(name: str, tokenizer: Tokenizer) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return entry.ids(f"{name}.ids", tokenizer), map_array(entry.path / f"{name}.ends", np.int64)

    numbers = map_array(entry.path / "numbers", np.int64)
    sides = (*side("src", tokenizers.src), *side("tgt", tokenizers.tgt))
    return PairStore(*sides, numbers, _reports(corpus, numbers, max_tokens), entry.fingerprint)


def _reports(corpus: ParsedCorpus, numbers: NDArray[np.int64], max_tokens: int) -> tuple[CorpusReport, ...]:
    """Return the report of each part of a corpus, of whose pairs `numbers` are in the store."""
    is_missing = np.ones(len(corpus), dtype=np.bool_)
    is_missing[numbers] = False
    reports = tuple(part.report.copy() for part in corpus.parts)
    for part, report in zip(corpus.parts, reports, strict=True):
        missing = part.start + np.flatnonzero(is_missing[part.start : part.stop])
        report.leave_out(f"over {max_tokens:,} tokens", (corpus.lines[number] for number in missing.tolist()))
    return reports


def pair_store_from(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> PairStore:
    """Return a small store in memory, for generated data."""

    def side(rows: Sequence[Sequence[int]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        ragged = Ragged.of(rows)
        return ragged.ids, np.concatenate([[0], np.cumsum(ragged.lengths)])

    return PairStore(*side(src), *side(tgt), np.arange(len(src)), (CorpusReport(len(src), len(src)),), "memory")
