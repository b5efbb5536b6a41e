"""Third step: the texts of a shard that are kept → ids, and the counts of their words."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import id_type
from regard.data.pair_table import PairTable
from regard.data.prepared.filter_shards import KEPT
from regard.data.prepared.read_shard import CleanShard, write_manifest
from regard.files import delete_folder, new_folder, write_atomically
from regard.text.bulk_encoder import BulkEncoder
from regard.text.ragged import Ragged
from regard.text.seen_words import SeenWords, WordCounter, count_first_words
from regard.text.tokenizer import Tokenizer, TokenizerPair

_CHUNK = 10_000  # pairs encoded at a time


@dataclass(frozen=True)
class EncodeTask:
    """A shard to encode and the folder to write."""

    shard: CleanShard
    path: Path
    """Gets the ids"""
    work: Path
    """Gets what is needed until the corpus is complete: the counts of words, and `rows`"""
    key: str
    reasons: Path
    first: int
    """Position of the shard's first pair in `reasons`"""
    tokenizers: Path
    fingerprint: str
    """Of the tokenizers"""
    max_tokens: int

    def kept(self) -> NDArray[np.int64]:
        """Return the pairs of the shard that no filter leaves out."""
        reasons = np.fromfile(self.reasons, dtype=np.uint8, count=self.shard.n_pairs, offset=self.first)
        return np.flatnonzero(reasons == KEPT)


def encode_shard(task: EncodeTask) -> None:
    """Encode the texts of a shard that are kept, and write their ids."""
    shard, kept = task.shard, task.kept()
    texts = shard.texts()
    sources, targets = [texts[2 * i] for i in kept.tolist()], [texts[2 * i + 1] for i in kept.tolist()]
    tokenizers, encode_src, encode_tgt = _encoders(task.tokenizers, task.fingerprint)
    sides: tuple[list[Ragged], list[Ragged]] = ([], [])
    for i in range(0, len(kept), _CHUNK):
        sides[0].append(encode_src(sources[i : i + _CHUNK], count=True))
        sides[1].append(encode_tgt(targets[i : i + _CHUNK]))
    src, tgt = map(Ragged.joined, sides)
    fits = np.maximum(src.lengths, tgt.lengths) <= task.max_tokens
    long_lines = shard.lines[kept[~fits]]
    task.work.mkdir(parents=True, exist_ok=True)
    for name, counts in (("pieces.tsv", encode_src.pop_counts()), ("first.tsv", count_first_words(sources))):
        write_atomically(task.work / name, "".join(f"{word}\t{n}\n" for word, n in counts.items()).encode())
    write_atomically(task.work / "rows", kept[fits].astype(np.uint32).tobytes())
    delete_folder(task.path)
    with new_folder(task.path) as folder:
        for name, side, tokenizer in (("src", src, tokenizers.src), ("tgt", tgt, tokenizers.tgt)):
            _write_side(folder, name, side.select(fits), tokenizer)
        table = shard.table.select(kept)
        _write_hashes(folder, "", table.select(fits))
        _write_hashes(folder, "long_", table.select(~fits))
        first_long = int(long_lines.min(initial=np.iinfo(np.int64).max))
        write_manifest(folder, key=task.key, pairs=int(fits.sum()), long=[len(long_lines), first_long])


def merge_words(folders: Iterable[Path]) -> SeenWords:
    """Return the words of all shards, of which these folders have the counts."""
    counter = WordCounter()
    for folder in folders:
        counter.add(_read_counts(folder / "pieces.tsv"), _read_counts(folder / "first.tsv"))
    return counter.total()


def _read_counts(path: Path) -> dict[str, int]:
    fields = path.read_bytes().decode().replace("\n", "\t").split("\t")
    return dict(zip(fields[:-1:2], map(int, fields[1::2]), strict=True))


@lru_cache(maxsize=1)
def _encoders(folder: Path, fingerprint: str) -> tuple[TokenizerPair, BulkEncoder, BulkEncoder]:
    """Return the tokenizers and encoders of this process, which remember words from shard to shard."""
    pair = TokenizerPair.load(folder)
    assert pair.fingerprint == fingerprint
    src = BulkEncoder(pair.src)
    return pair, src, src if pair.src is pair.tgt else BulkEncoder(pair.tgt)


def _write_side(folder: Path, name: str, side: Ragged, tokenizer: Tokenizer) -> None:
    ends = np.concatenate([[0], np.cumsum(side.lengths)])
    (folder / f"{name}.ids").write_bytes(side.ids.astype(id_type(tokenizer)).tobytes())
    (folder / f"{name}.ends").write_bytes(ends.astype(np.uint32).tobytes())


def _write_hashes(folder: Path, prefix: str, table: PairTable) -> None:
    """Write the hashes of sources and of pairs in increasing order, to look up validation data in them."""
    (folder / f"{prefix}sources").write_bytes(np.sort(table.sources).tobytes())
    (folder / f"{prefix}pairs").write_bytes(np.sort(table.pairs).tobytes())
