"""A prepared corpus: a folder with the ids of its pairs in shards, its tokenizers and what else training needs.

Opening it reads the manifest and compares the sizes of the files. Files of less than a gigabyte in all are verified
completely; `regard verify` does so for any size.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus_report import CorpusReport
from regard.data.leakage import Leakage
from regard.data.parallel_corpus import CorpusPart, SentencePair
from regard.data.prepared.encode_shard import merge_words
from regard.data.prepared.job import SHARDS, TOKENIZER, WORK, CleanPairs
from regard.data.prepared.read_shard import report_facts, report_of, table_of
from regard.data.prepared.sharded_pairs import ShardedPairs
from regard.errors import UserError
from regard.files import write_atomically
from regard.manifest import MANIFEST, Checksum, DamagedFile, Manifest, read_regular
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import TokenizerPair

_FORMAT = 1
_VERIFIED = 1 << 30  # bytes that are verified whenever a corpus is opened
_WORDS, _HELD_OUT = "words.tsv", "held_out.tsv"
_KIND = "prepared corpus"


def is_prepared(path: Path) -> bool:
    """Return whether a folder holds a prepared corpus, or one that is not complete."""
    return (path / SHARDS).is_dir() or (path / WORK).is_dir()


def prepared_languages(folder: Path) -> tuple[str, str]:
    """Return the language codes of a prepared corpus."""
    src, tgt = _read_manifest(folder).facts["languages"]
    return str(src), str(tgt)


@dataclass(frozen=True)
class HeldOut:
    """Pairs that are held out for validation."""

    rows: NDArray[np.int64]
    """In increasing order"""
    texts: list[SentencePair]
    leakage: Leakage


@dataclass(frozen=True)
class PreparedCorpus:
    """A prepared corpus that was opened."""

    folder: Path
    facts: dict[str, Any]
    tokenizers: TokenizerPair
    pairs: ShardedPairs

    @classmethod
    def open(cls, folder: Path, verify: bool | None = None) -> "PreparedCorpus":
        """Open a folder; `verify` says whether all files are read to verify them, by default if they are small."""
        manifest = _read_manifest(folder)
        facts = dict(manifest.facts)
        shards = {
            folder / SHARDS / name: _open_shard(folder / SHARDS / name, sha256) for name, sha256 in facts["shards"]
        }
        checked = {folder: manifest, **shards}
        size = sum(_check_sizes(path, of_path) for path, of_path in checked.items())
        if verify or (verify is None and size <= _VERIFIED):
            for path, of_path in checked.items():
                of_path.check(path)
        tokenizers = TokenizerPair.load(folder / TOKENIZER)
        sizes = [int(shard.facts["pairs"]) for shard in shards.values()]
        return cls(folder, facts, tokenizers, ShardedPairs.open(list(shards), sizes, tokenizers, facts["fingerprint"]))

    @property
    def report(self) -> CorpusReport:
        return report_of(self.facts["report"])

    @property
    def parts(self) -> tuple[CorpusPart, ...]:
        return (CorpusPart(str(self.facts["name"]), 0, len(self.pairs), self.report),)

    @cached_property
    def words(self) -> SeenWords:
        return SeenWords.from_bytes(read_regular(self.folder / _WORDS))

    @cached_property
    def held_out(self) -> HeldOut | None:
        """None: the corpus is too small"""
        if self.facts["leakage"] is None:
            return None
        lines = [line.split("\t") for line in read_regular(self.folder / _HELD_OUT).decode().splitlines()]
        leakage = {**self.facts["leakage"], "lines": tuple(self.facts["leakage"]["lines"])}
        rows = np.array([int(row) for row, _, _ in lines], dtype=np.int64)
        return HeldOut(rows, [(src, tgt) for _, src, tgt in lines], Leakage(**leakage))

    def find_leakage(self, texts: Sequence[str], lines: Sequence[int]) -> Leakage:
        """Return which of some pairs (source, target, source …) occur in the corpus."""
        table = table_of(texts)
        sources, pairs = (
            self.pairs.count(name, hashes) + self.pairs.count(f"long_{name}", hashes) > 0
            for name, hashes in (("sources", table.sources), ("pairs", table.pairs))
        )
        return _leakage(sources, pairs, lines)


def write_prepared(
    folder: Path,
    clean: CleanPairs,
    shards: Sequence[Manifest],
    tokenizers: TokenizerPair,
    held_out_rows: NDArray[np.int64],
    **facts: Any,
) -> None:
    """Write what belongs to the whole corpus; the manifest comes last. `held_out_rows` are held out for validation."""
    names = [shard.path.name for shard in clean.shards]
    sizes = [int(shard.facts["pairs"]) for shard in shards]
    hashes = [hashlib.sha256(shard.to_bytes()).hexdigest() for shard in shards]
    fingerprint = hashlib.sha256("".join([*hashes, tokenizers.fingerprint]).encode()).hexdigest()
    pairs = ShardedPairs.open([folder / SHARDS / name for name in names], sizes, tokenizers, fingerprint)
    held_out, lines = _read_pairs(clean, pairs, np.sort(held_out_rows))
    write_atomically(
        folder / _WORDS, merge_words(shard.path.with_suffix(".encoded") for shard in clean.shards).to_bytes()
    )
    content = "".join(
        f"{row}\t{src}\t{tgt}\n" for row, (src, tgt) in zip(np.sort(held_out_rows), held_out, strict=True)
    )
    write_atomically(folder / _HELD_OUT, content.encode())
    leakage = None
    if held_out:
        table = table_of([text for pair in held_out for text in pair])
        sources, same = (
            pairs.count(name, own) - (own[:, None] == own).sum(0) > 0
            for name, own in (("sources", table.sources), ("pairs", table.pairs))
        )
        leakage = asdict(_leakage(sources, same, lines))
    tokenizer_files = [f"{TOKENIZER}/{name}" for name in tokenizers.files()]
    Manifest.of_folder(
        folder,
        [_WORDS, _HELD_OUT, *tokenizer_files],
        kind=_KIND,
        format=_FORMAT,
        fingerprint=fingerprint,
        shards=list(zip(names, hashes, strict=True)),
        report=report_facts(_final_report(clean, shards, facts["options"]["batch"]["max_tokens"])),
        leakage=leakage,
        **facts,
    ).write(folder)


def _final_report(clean: CleanPairs, shards: Sequence[Manifest], max_tokens: int) -> CorpusReport:
    report = clean.report()
    longs = [shard.facts["long"] for shard in shards if shard.facts["long"][0]]
    if longs:
        count = sum(n for n, _ in longs)
        report.used -= count
        report.problems[f"over {max_tokens:,} tokens"] = (count, min(first for _, first in longs))
    return report


def _read_pairs(
    clean: CleanPairs, pairs: ShardedPairs, rows: NDArray[np.int64]
) -> tuple[list[SentencePair], list[int]]:
    """Return the texts of rows, in increasing order, and their lines in the files."""
    texts: list[SentencePair] = []
    lines: list[int] = []
    for shard, first, last in zip(clean.shards, pairs.starts[:-1], pairs.starts[1:], strict=True):
        of_shard = rows[(rows >= first) & (rows < last)] - first
        if len(of_shard):
            places = np.fromfile(shard.path.with_suffix(".encoded") / "rows", dtype=np.uint32)[of_shard]
            sides = shard.texts()
            texts += [(sides[2 * i], sides[2 * i + 1]) for i in places.tolist()]
            lines += shard.lines[places].tolist()
    return texts, lines


def _leakage(sources: NDArray[np.bool_], pairs: NDArray[np.bool_], lines: Sequence[int]) -> Leakage:
    first = tuple(lines[row] for row in np.flatnonzero(sources)[:1].tolist())
    return Leakage(len(lines), int(sources.sum()), int(pairs.sum()), first)


def _read_manifest(folder: Path) -> Manifest:
    if not (folder / MANIFEST).is_file():
        raise UserError(f"{folder}: is not completely prepared; run `regard data prepare` again to continue")
    manifest = Manifest.read(folder)
    if manifest.facts.get("kind") != _KIND or manifest.facts.get("format") != _FORMAT:
        raise UserError(f"{folder}: was prepared by another version of regard; prepare it again")
    return manifest


def _open_shard(folder: Path, sha256: str) -> Manifest:
    content = read_regular(folder / MANIFEST)
    if Checksum.of(content).sha256 != sha256:
        raise DamagedFile(f"{folder / MANIFEST}: changed or damaged since it was written (SHA-256 differs)")
    return Manifest.from_bytes(content, folder / MANIFEST)


def _check_sizes(folder: Path, manifest: Manifest) -> int:
    """Raise DamagedFile if a file has another size than when it was written; return the size of all."""
    for name, expected in manifest.files.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else -1
        if found != expected.size:
            what = "missing" if found < 0 else f"has {found:,} bytes, but {expected.size:,} were written"
            raise DamagedFile(f"{path}: {what}")
    return sum(checksum.size for checksum in manifest.files.values())
