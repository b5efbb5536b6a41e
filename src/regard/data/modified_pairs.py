"""Pairs of an epoch whose texts are changed by modifiers: decoded, changed and encoded again."""

import tempfile
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import id_type
from regard.data.modifiers import Modifier, Noise
from regard.data.pair_store import IdPairs
from regard.data.term_annotator import TermAnnotator
from regard.files import cache_folder, disk_error
from regard.text.bulk_encoder import BulkEncoder
from regard.text.clean import clean
from regard.text.ragged import Ragged
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import UNK

_BLOCK = 10_000  # pairs looked at together; results depend on it
_NOISE = -1
_STREAM = 2  # distinguishes these random numbers from others of the same seed


class Pairs(Protocol):
    """Pairs of id sequences."""

    def __len__(self) -> int: ...
    def src(self, rows: NDArray[np.int64]) -> Ragged: ...
    def tgt(self, rows: NDArray[np.int64]) -> Ragged: ...
    def lengths(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of source and of target tokens of pairs."""


class _NewPair(NamedTuple):
    place: int
    """Of the pair that it replaces, in a block of pairs; or _NOISE: it replaces none"""
    src: str
    tgt: str


@dataclass(frozen=True)
class PairModifier:
    """Changes pairs of an epoch at random, as a function of (seed, epoch, position in the epoch)."""

    modifiers: Callable[[int], Sequence[Modifier | TermAnnotator]]
    """epoch → modifiers"""
    tokenizers: TokenizerPair
    max_tokens: int
    """A pair that would get longer than this on a side is not changed"""
    starts: NDArray[np.int64]
    """First row of each corpus in the store"""
    prefixes: tuple[str, ...]
    """What the sources of each corpus begin with, which is not changed"""
    seed: int

    def __call__(
        self, pairs: Pairs, rows: NDArray[np.int64], epoch: int, window: int = 0
    ) -> tuple[Pairs, NDArray[np.int64]]:
        """Return the pairs followed by changed ones, and the rows of a window of an epoch, which point to the latter.

        Rows of noise come last.
        """
        modifiers = self.modifiers(epoch)
        if not modifiers:
            return pairs, rows
        rows, noise, writer = rows.copy(), [rows[:0]], _PairWriter(self.tokenizers)
        for block, start in enumerate(range(0, len(rows), _BLOCK)):
            place = (epoch, block, window) if window else (epoch, block)
            bits = np.random.Philox(np.random.SeedSequence([self.seed, _STREAM, *place]))
            of_block = rows[start : start + _BLOCK]  # a view: changing it changes `rows`
            new = self._make(pairs, of_block, modifiers, np.random.Generator(bits))
            src, tgt = self._encode(new)
            fits = np.maximum(src.lengths, tgt.lengths) <= self.max_tokens
            new_rows = len(pairs) + writer.write(src.select(fits), tgt.select(fits))
            places = np.array([pair.place for pair in new], dtype=np.int64)[fits]
            is_noise = places == _NOISE
            of_block[places[~is_noise]] = new_rows[~is_noise]
            noise.append(new_rows[is_noise])
        return ExtendedPairs(pairs, writer.pairs()), np.concatenate([rows, *noise])

    def _make(
        self,
        pairs: Pairs,
        rows: NDArray[np.int64],
        modifiers: Sequence[Modifier | TermAnnotator],
        generator: np.random.Generator,
    ) -> list[_NewPair]:
        """Return the changed pairs of a block, and additional ones."""
        seeds = generator.integers(1 << 62, size=len(rows))
        chosen = generator.random((len(modifiers), len(rows))) < [[modifier.probability] for modifier in modifiers]
        new: list[_NewPair] = []
        places = np.flatnonzero(chosen.any(0))
        src, tgt = pairs.src(rows[places]).lists(), pairs.tgt(rows[places]).lists()
        corpora = np.searchsorted(self.starts, rows[places], side="right") - 1
        for i, place in enumerate(places.tolist()):
            random, prefix = Random(int(seeds[place])), self.prefixes[corpora[i]]
            text = before = self._decode(src[i], tgt[i], prefix)
            for modifier in compress(modifiers, chosen[:, place]):
                if isinstance(modifier, Noise):
                    words = modifier.text(random)
                    new.append(_NewPair(_NOISE, prefix + words, words))
                elif text is None:
                    continue
                elif isinstance(modifier, TermAnnotator):
                    text = modifier.annotate(int(rows[place]), *text, random)
                else:
                    text = modifier(*text, random)
            if text is not None and text != before:
                new.append(_NewPair(place, prefix + clean(text[0]), clean(text[1])))
        return new

    def _decode(self, src: list[int], tgt: list[int], prefix: str) -> tuple[str, str] | None:
        """Return the texts of a pair, the source without its prefix; None if they cannot be restored."""
        source = self.tokenizers.src.decode(src)
        if UNK in src or UNK in tgt or not source.startswith(prefix):
            return None
        return source.removeprefix(prefix), self.tokenizers.tgt.decode(tgt)

    def _encode(self, new: Sequence[_NewPair]) -> tuple[Ragged, Ragged]:
        src, tgt = self._encoders
        return src([pair.src for pair in new]), tgt([pair.tgt for pair in new])

    @cached_property
    def _encoders(self) -> tuple[BulkEncoder, BulkEncoder]:
        src = BulkEncoder(self.tokenizers.src)
        return src, src if self.tokenizers.src is self.tokenizers.tgt else BulkEncoder(self.tokenizers.tgt)


@dataclass(frozen=True)
class ExtendedPairs:
    """The pairs of a store, followed by others."""

    store: Pairs
    added: IdPairs

    def __len__(self) -> int:
        return len(self.store) + len(self.added)

    def src(self, rows: NDArray[np.int64]) -> Ragged:
        return self._gather(rows, self.store.src, self.added.src)

    def tgt(self, rows: NDArray[np.int64]) -> Ragged:
        return self._gather(rows, self.store.tgt, self.added.tgt)

    def lengths(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of source and of target tokens of pairs."""
        is_added = rows >= len(self.store)
        src, tgt = np.empty_like(rows), np.empty_like(rows)
        src[~is_added], tgt[~is_added] = self.store.lengths(rows[~is_added])
        src[is_added], tgt[is_added] = self.added.lengths(rows[is_added] - len(self.store))
        return src, tgt

    def _gather(self, rows: NDArray[np.int64], *sides: Callable[[NDArray[np.int64]], Ragged]) -> Ragged:
        """Return sequences of both parts, in the order of `rows`."""
        is_added = rows >= len(self.store)
        parts = sides[0](rows[~is_added]), sides[1](rows[is_added] - len(self.store))
        ids, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "lengths"))
        order = np.empty_like(rows)
        order[np.argsort(is_added, kind="stable")] = np.arange(len(rows))
        return Ragged.gather(ids, np.concatenate([[0], np.cumsum(lengths)]), order)


class _PairWriter:
    """Collects pairs of an epoch; their ids go to temporary files, as there may be many."""

    def __init__(self, tokenizers: TokenizerPair) -> None:
        self._sides = (_SideWriter(tokenizers.src), _SideWriter(tokenizers.tgt))

    def write(self, src: Ragged, tgt: Ragged) -> NDArray[np.int64]:
        """Add pairs and return their rows."""
        first = len(self._sides[0].ends) - 1
        for writer, side in zip(self._sides, (src, tgt), strict=True):
            writer.write(side)
        return first + np.arange(len(src.lengths))

    def pairs(self) -> IdPairs:
        (src_ids, src_ends), (tgt_ids, tgt_ends) = (writer.read() for writer in self._sides)
        return IdPairs(src_ids, src_ends, tgt_ids, tgt_ends)


class _SideWriter:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._type = id_type(tokenizer)
        self.ends = array("q", [0])
        cache_folder().mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=cache_folder())  # noqa: SIM115

    def write(self, side: Ragged) -> None:
        self.ends.frombytes((self.ends[-1] + np.cumsum(side.lengths)).tobytes())
        try:
            self._file.write(side.ids.astype(self._type).tobytes())
        except OSError as error:
            raise disk_error(error, cache_folder() / "temporary file") from error

    def read(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the ids, memory-mapped, and where each sequence ends."""
        self._file.flush()
        with self._file:
            is_empty = self.ends[-1] == 0  # which cannot be mapped
            ids = np.empty(0, self._type) if is_empty else np.memmap(self._file, dtype=self._type, mode="r")
        return ids, np.asarray(self.ends)
