"""Sequences of different lengths in one array."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.text.vocab import EOS


@dataclass(frozen=True)
class Ragged:
    """Sequences of different lengths, concatenated."""

    ids: NDArray[Any]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum())), lengths)

    @classmethod
    def joined(cls, parts: "Sequence[Ragged]") -> "Ragged":
        """Return the sequences of several as one."""
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, dtype=np.int64)
        return cls(
            np.concatenate([part.ids for part in parts] or [none]),
            np.concatenate([part.lengths for part in parts] or [none]),
        )

    @classmethod
    def gather(cls, ids: NDArray[Any], ends: NDArray[Any], rows: NDArray[np.int64]) -> "Ragged":
        """Return the sequences `rows` of concatenated ids; sequence i is ids[ends[i] : ends[i + 1]]."""
        starts = ends[rows].astype(np.int64)
        lengths = ends[rows + 1].astype(np.int64) - starts
        # The position of each id of the result: the start of its row plus its offset within the row.
        before = np.cumsum(lengths) - lengths
        positions = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return cls(ids[positions], lengths)

    def lists(self) -> list[list[int]]:
        return [part.tolist() for part in np.split(self.ids, np.cumsum(self.lengths)[:-1])]

    def select(self, rows: NDArray[np.bool_]) -> "Ragged":
        """Return the sequences at which `rows` is True."""
        return self if rows.all() else Ragged(self.ids[np.repeat(rows, self.lengths)], self.lengths[rows])

    def matrix(self, fill: int) -> NDArray[np.int64]:
        """Return the sequences as rows, filled up on the right."""
        matrix = np.full((len(self.lengths), self.lengths.max(initial=0)), fill)
        matrix[np.arange(matrix.shape[1]) < self.lengths[:, None]] = self.ids
        return matrix

    def fill(self, array: NDArray[np.int64], start: int) -> None:
        """Write sequence i to array[i, start:], followed by EOS."""
        n = len(self.lengths)
        columns = np.arange(array.shape[1])
        inside = (columns >= start) & (columns < (start + self.lengths)[:, None])
        array[:n][inside] = self.ids
        array[np.arange(n), start + self.lengths] = EOS
