"""Plain text as one sequence of token ids in a memory-mapped file."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import Warn, find_or_build, id_type, no_warning
from regard.data.corpus_report import CorpusReport
from regard.data.text_files import ParsedText
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import EOS

_SCHEMA = 2
_CHUNK = 1 << 20  # characters tokenised at a time


@dataclass(frozen=True)
class TextStore:
    """The ids of a text, with EOS after each document. `ids` may be larger than memory."""

    ids: NDArray[Any]
    n_bytes: int
    """Size of the text in UTF-8, for bits per byte"""
    vocab_size: int
    report: CorpusReport
    fingerprint: str

    def __len__(self) -> int:
        return len(self.ids)


def open_text(text: ParsedText, tokenizer: Tokenizer, folder: Path | None = None, warn: Warn = no_warning) -> TextStore:
    """Return the tokenised text from the cache (by default `cache_folder()`); tokenise it if it is not there.

    `warn` is called if the cache is damaged.
    """

    def build(path: Path) -> CorpusReport:
        n_bytes = 0
        with (path / "text.ids").open("wb") as out:
            for document in text.documents():
                for chunk, size in _encode(document, tokenizer):
                    out.write(chunk.tobytes())
                    n_bytes += size
        (path / "bytes").write_text(str(n_bytes))
        return text.report

    key = f"text {_SCHEMA} {text.fingerprint} {TokenizerPair(tokenizer, tokenizer).fingerprint}"
    entry = find_or_build(key, build, folder, unit="lines", warn=warn)
    n_bytes = int((entry.path / "bytes").read_text())
    return TextStore(entry.ids("text.ids", tokenizer), n_bytes, tokenizer.size, entry.report, entry.fingerprint)


def text_store_from(texts: Sequence[str], tokenizer: Tokenizer) -> TextStore:
    """Return a small store in memory, for generated documents."""
    chunks = [chunk for text in texts for chunk in _encode(StringIO(text), tokenizer)]
    ids = np.concatenate([ids for ids, _ in chunks])
    n_lines = sum(1 for text in texts for _ in StringIO(text))
    report = CorpusReport(n_lines, n_lines, unit="lines")
    fingerprint = hashlib.sha256(ids.tobytes()).hexdigest()
    return TextStore(ids, sum(size for _, size in chunks), tokenizer.size, report, fingerprint)


def _encode(pieces: Iterable[str], tokenizer: Tokenizer) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield a document in chunks of ids, each with the bytes of its text; EOS follows the last."""
    chunk: list[str] = []
    n_chars = 0
    for piece in pieces:
        chunk.append(piece)
        n_chars += len(piece)
        if n_chars >= _CHUNK:
            yield _ids(chunk, tokenizer), sum(len(p.encode()) for p in chunk)
            chunk, n_chars = [], 0
    yield np.append(_ids(chunk, tokenizer), id_type(tokenizer)(EOS)), sum(len(p.encode()) for p in chunk)


def _ids(pieces: Sequence[str], tokenizer: Tokenizer) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(tokenizer.encode(pieces)), dtype=id_type(tokenizer))
