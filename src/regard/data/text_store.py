"""Plain text as one long stream of ids, and the blocks that language models learn from and are measured on."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.batching import BatchConfig, Batches
from regard.data.corpus import BadLine, CorpusReport, decode_line, fingerprint_files, open_bytes
from regard.data.pair_store import find_or_build, id_type
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import BOS, EOS, MASK, PAD, SPECIALS

_SCHEMA = 1
_PIECE = 1 << 16  # bytes of the longest piece; a longer line is cut, as a whole book may be one line
_CHUNK = 1 << 20  # characters tokenised at a time

_CHOSEN = 0.15  # of the places, for masked training; of these:
_MASKED, _RANDOM = 0.8, 0.1  # the others stay as they are

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class TextFiles:
    """UTF-8 files, plain or gzipped, each of them one document; white space and line breaks are part of the text."""

    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise UserError("no text file given; name one or more")
        for path in self.paths:
            if not path.is_file():
                raise UserError(f"{path}: no such file")

    def pieces(self, report: CorpusReport) -> Iterator[str]:
        """The text in order, a line (with its line feed) or part of a long line at a time."""
        for path in self.paths:
            yield from read_pieces(path, report)

    def fingerprint(self) -> str:
        return fingerprint_files(self.paths, "text")


@dataclass(frozen=True)
class TextStore:
    """The ids of a text, EOS after each document. `ids` may be larger than memory."""

    ids: NDArray[Any]
    n_bytes: int
    """Of the text in UTF-8, for bits per byte"""
    vocab_size: int
    report: CorpusReport
    """Lines are counted through all files, one behind the other"""
    fingerprint: str

    def __len__(self) -> int:
        return len(self.ids)


def open_text(paths: Sequence[Path], tokenizer: Tokenizer, folder: Path | None = None) -> TextStore:
    """The store of these files under this tokenizer; tokenises them if nobody did before."""
    files = TextFiles(tuple(paths))

    def build(path: Path, report: CorpusReport) -> None:
        n_bytes = 0
        with (path / "text.ids").open("wb") as out:
            for file in files.paths:
                for chunk, size in _encode(read_pieces(file, report), tokenizer):
                    out.write(chunk.tobytes())
                    n_bytes += size
        (path / "bytes").write_text(str(n_bytes))

    key = f"text {_SCHEMA} {files.fingerprint()} {TokenizerPair(tokenizer, tokenizer).fingerprint}"
    cached = find_or_build(key, build, folder, unit="lines")
    n_bytes = int((cached.path / "bytes").read_text())
    ids = cached.ids("text.ids", tokenizer)
    return TextStore(ids, n_bytes, tokenizer.size, cached.report, cached.fingerprint)


def text_store_from(texts: Sequence[str], tokenizer: Tokenizer) -> TextStore:
    """A small store in memory, of documents that the package makes itself."""
    chunks = [chunk for text in texts for chunk in _encode(StringIO(text), tokenizer)]
    ids = np.concatenate([ids for ids, _ in chunks])
    n_lines = sum(1 for text in texts for _ in StringIO(text))
    report = CorpusReport(n_lines, n_lines, unit="lines")
    fingerprint = hashlib.sha256(ids.tobytes()).hexdigest()
    return TextStore(ids, sum(size for _, size in chunks), tokenizer.size, report, fingerprint)


@dataclass(frozen=True)
class _Blocks(Batches):
    """Blocks of exactly `context` ids, cut one behind the other from an offset that each epoch draws, and shuffled.

    Every batch has the same shape: what is left at the end of an epoch waits for the next one's cut.
    """

    store: TextStore
    config: BatchConfig
    seed: int
    context: int
    _plans: dict[int, list[Ids]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.context < 1:
            raise UserError(f"a context of {self.context} tokens holds nothing; set it to 1 or more")
        if len(self.store) < self.context:
            raise UserError(
                f"the text has {len(self.store):,} tokens, fewer than one block of {self.context:,}; "
                "lower the context or give more text"
            )

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint

    @property
    def size(self) -> int:
        return len(self.store) // self.context

    @property
    def n_rows(self) -> int:
        """Blocks a batch: what the budget holds, but no more than every epoch has, wherever it starts to cut."""
        least = (len(self.store) - self.context + 1) // self.context
        return max(1, min(self.config.tokens // self.context, least))

    def _plan(self, epoch: int) -> list[Ids]:
        """The epoch's batches as the places where their blocks start."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        spare = len(self.store) - self.context
        offset = int(generator.integers(min(self.context, spare + 1)))
        starts = offset + self.context * generator.permutation((len(self.store) - offset) // self.context)
        n_batches = len(starts) // self.n_rows
        return list(starts[: n_batches * self.n_rows].reshape(n_batches, self.n_rows))

    def blocks(self, starts: Ids) -> Ids:
        """[B] → [B, context]"""
        return self.store.ids[starts[:, None] + np.arange(self.context)].astype(np.int64)


class TextBatches(_Blocks):
    """Next-token training. src [B, 0]; tgt_in [B, context]: BOS and the block but its last; tgt_out: the block."""

    def _collate(self, rows: Ids, epoch: int, index: int) -> Batch:
        blocks = self.blocks(rows)
        return Batch(_nothing(len(rows)), torch.from_numpy(_shifted(blocks)), torch.from_numpy(blocks))


class MaskedBatches(_Blocks):
    """Masked-token training (Devlin et al. 2019), without BOS and with nothing masked that is special.

    src [B, context]: the block, some of it hidden; tgt_in [B, 0]; tgt_out [B, context]: what was there in the chosen
    places, PAD in the others. A block with an ordinary id in it has at least one chosen place.
    """

    def _collate(self, rows: Ids, epoch: int, index: int) -> Batch:
        blocks = self.blocks(rows)
        generator = np.random.default_rng([self.seed, epoch, index])
        ordinary = blocks >= len(SPECIALS)
        draw = np.where(ordinary, generator.random(blocks.shape), 1.0)
        chosen = ordinary & ((draw < _CHOSEN) | (draw == draw.min(axis=1, keepdims=True)))
        fate = generator.random(blocks.shape)
        others = generator.integers(len(SPECIALS), self.store.vocab_size, blocks.shape)
        hidden = np.where(fate < _MASKED, MASK, np.where(fate < _MASKED + _RANDOM, others, blocks))
        src, tgt_out = np.where(chosen, hidden, blocks), np.where(chosen, blocks, PAD)
        return Batch(torch.from_numpy(src), _nothing(len(rows)), torch.from_numpy(tgt_out))


def windows(ids: NDArray[Any], context: int, stride: int) -> Iterator[tuple[Ids, Ids]]:
    """(tgt_in, tgt_out), each [context], over the whole text: every id is in one tgt_out, and PAD stands elsewhere.

    A window starts `stride` ids behind the one before, so that an id has at least context − stride others of its
    window on its left, save in the first.
    """
    if not 1 <= stride <= context:
        raise UserError(f"a stride of {stride} does not fit a context of {context}; choose 1 to {context}")
    scored = 0
    for start in range(0, len(ids), stride):
        window = np.full(context, PAD, dtype=np.int64)
        end = min(start + context, len(ids))
        window[: end - start] = ids[start:end]
        tgt_out = window.copy()
        tgt_out[: scored - start] = PAD  # what an earlier window scored
        yield _shifted(window[None])[0], tgt_out
        scored = end
        if end == len(ids):
            return


def read_pieces(path: Path, report: CorpusReport) -> Iterator[str]:
    """A file's text, a line with its line feed at a time, or part of a very long one; bad pieces are left out."""
    first, fresh = True, True  # of the file, of the line
    for raw in _raw_pieces(path):
        report.lines += fresh
        text = decode_line(raw, report.lines, report, first=first, end=b"\n")
        if isinstance(text, BadLine):
            report.add(text.kind, report.lines)
        else:
            report.used += fresh
            yield text
        first, fresh = False, raw.endswith(b"\n")


def _raw_pieces(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file:
        rest = b""
        while more := file.readline(_PIECE - len(rest)):
            piece = rest + more
            cut = len(piece) if piece.endswith(b"\n") or len(piece) < _PIECE else _cut(piece)
            yield piece[:cut]
            rest = piece[cut:]
        if rest:
            yield rest


def _cut(piece: bytes) -> int:
    """Where to cut a piece of a long line: before its last space, else before its last character."""
    if (space := piece.rfind(b" ")) > 0:
        return space
    starts = (i for i in range(len(piece) - 1, len(piece) - 5, -1) if piece[i] & 0xC0 != 0x80)
    return next(starts, len(piece))


def _encode(pieces: Iterable[str], tokenizer: Tokenizer) -> Iterator[tuple[NDArray[Any], int]]:
    """A document's ids, chunk by chunk, each with the bytes of text in it; EOS is behind the last."""
    chunk: list[str] = []
    waiting = 0
    for piece in pieces:
        chunk.append(piece)
        waiting += len(piece)
        if waiting >= _CHUNK:
            yield _ids(chunk, tokenizer), sum(len(p.encode()) for p in chunk)
            chunk, waiting = [], 0
    yield np.append(_ids(chunk, tokenizer), id_type(tokenizer)(EOS)), sum(len(p.encode()) for p in chunk)


def _ids(pieces: Sequence[str], tokenizer: Tokenizer) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(tokenizer.encode(pieces)), dtype=id_type(tokenizer))


def _shifted(blocks: Ids) -> Ids:
    """[B, T] → [B, T]: BOS and all but the last"""
    return np.concatenate([np.full((len(blocks), 1), BOS), blocks[:, :-1]], axis=1)


def _nothing(rows: int) -> torch.Tensor:
    return torch.empty(rows, 0, dtype=torch.int64)
