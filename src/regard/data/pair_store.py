"""Tokenised sentence pairs in memory-mapped files."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import CacheEntry, Warn, find_or_build, id_type, no_warning
from regard.data.corpus_report import CorpusReport
from regard.data.parallel_corpus import ParsedCorpus
from regard.text.bulk_encoder import BulkEncoder
from regard.text.ragged import Ragged
from regard.text.tokenizer import Tokenizer, TokenizerPair

_SCHEMA = 3
_CHUNK = 10_000  # pairs tokenised at a time


@dataclass(frozen=True)
class PairStore:
    """Pairs of id sequences without special tokens. The ids may be larger than memory; the offsets are in memory."""

    src_ids: NDArray[Any]
    src_ends: NDArray[np.int64]
    tgt_ids: NDArray[Any]
    tgt_ends: NDArray[np.int64]
    numbers: NDArray[np.int64]
    """Index of each pair among the clean pairs of the corpus, from 0; pairs that are too long are not in the store"""
    report: CorpusReport
    fingerprint: str

    def __len__(self) -> int:
        return len(self.src_ends) - 1

    def src(self, rows: NDArray[np.int64]) -> Ragged:
        return Ragged.gather(self.src_ids, self.src_ends, rows)

    def tgt(self, rows: NDArray[np.int64]) -> Ragged:
        return Ragged.gather(self.tgt_ids, self.tgt_ends, rows)

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of source and of target tokens per pair."""
        return np.diff(self.src_ends), np.diff(self.tgt_ends)


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
        report = corpus.report.copy()
        _write(path, _encode(corpus, tokenizers, max_tokens, report), tokenizers)
        return report

    key = f"{_SCHEMA} {corpus.fingerprint} {tokenizers.fingerprint} {max_tokens}"
    return _read(find_or_build(key, build, folder, warn=warn), tokenizers)


def _encode(
    corpus: ParsedCorpus, tokenizers: TokenizerPair, max_tokens: int, report: CorpusReport
) -> Iterator[tuple[NDArray[np.int64], Ragged, Ragged]]:
    """Yield indices, source ids and target ids of the pairs that are not too long; the others go into the report."""
    encode_src = BulkEncoder(tokenizers.src)
    encode_tgt = encode_src if tokenizers.src is tokenizers.tgt else BulkEncoder(tokenizers.tgt)
    for start in range(0, len(corpus), _CHUNK):
        indices = np.arange(start, min(start + _CHUNK, len(corpus)))
        texts = list(corpus.texts.slice(2 * start, 2 * (start + len(indices))))
        src, tgt = encode_src(texts[::2]), encode_tgt(texts[1::2])
        fits = np.maximum(src.lengths, tgt.lengths) <= max_tokens
        for index in indices[~fits].tolist():
            report.used -= 1
            report.add(f"over {max_tokens:,} tokens", corpus.lines[index])
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


def _read(entry: CacheEntry, tokenizers: TokenizerPair) -> PairStore:
    def side(name: str, tokenizer: Tokenizer) -> tuple[NDArray[Any], NDArray[np.int64]]:
        ends = np.fromfile(entry.path / f"{name}.ends", dtype=np.int64)
        return entry.ids(f"{name}.ids", tokenizer), ends

    numbers = np.fromfile(entry.path / "numbers", dtype=np.int64)
    sides = (*side("src", tokenizers.src), *side("tgt", tokenizers.tgt))
    return PairStore(*sides, numbers, entry.report, entry.fingerprint)


def pair_store_from(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> PairStore:
    """Return a small store in memory, for generated data."""

    def side(rows: Sequence[Sequence[int]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        ragged = Ragged.of(rows)
        return ragged.ids, np.concatenate([[0], np.cumsum(ragged.lengths)])

    return PairStore(*side(src), *side(tgt), np.arange(len(src)), CorpusReport(len(src), len(src)), "memory")
