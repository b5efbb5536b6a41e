"""Lists of texts in temporary files, for corpora that may be larger than memory."""

import io
import tempfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import IO, overload

import numpy as np
from numpy.typing import NDArray

from regard.files import cache_folder, disk_error

_IN_MEMORY = 64 << 20  # bytes; more are kept in a file
_BLOCK = 256  # texts written or read at a time


class Texts(Sequence[str], ABC):
    """Texts that are read by position and may be larger than memory."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return list(self.slice(start, stop))[::step]
        [text] = self.slice(index, index + 1)
        return text

    def __iter__(self) -> Iterator[str]:
        return self.slice(0, len(self))

    @abstractmethod
    def slice(self, start: int, stop: int) -> Iterator[str]:
        """Yield the texts start … stop − 1."""

    @abstractmethod
    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget the texts whose entry in `kept` is False."""

    @abstractmethod
    def close(self) -> None:
        """Free the space that they take."""


class JoinedTexts(Texts):
    """Several sequences of texts, one after the other."""

    def __init__(self, parts: Sequence[Texts]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def slice(self, start: int, stop: int) -> Iterator[str]:
        for part in self._parts:
            yield from part.slice(max(0, start), max(0, min(stop, len(part))))
            start, stop = start - len(part), stop - len(part)

    def keep(self, kept: NDArray[np.bool_]) -> None:
        ends = np.cumsum(list(map(len, self._parts)))
        for part, mask in zip(self._parts, np.split(kept, ends[:-1]), strict=True):
            part.keep(mask)

    def close(self) -> None:
        for part in self._parts:
            part.close()


class TextSpool(Texts):
    """Texts that are appended once and then read by position. Memory holds 16 bytes per text.

    More than 64 MiB go into a file without a name in the cache folder, which the system deletes when it is closed,
    even if the process is killed. Append all texts before reading the first.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] = io.BytesIO()
        self._starts, self._ends = array("q"), array("q")
        self._size = 0
        self._waiting: list[bytes] = []

    def append(self, text: str) -> None:
        self.extend([text])

    def extend(self, texts: Iterable[str]) -> None:
        self._waiting.extend(map(str.encode, texts))
        if len(self._waiting) >= _BLOCK:
            self._write()

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget the texts whose entry in `kept` is False; their bytes stay in the file."""
        self._write()
        self._starts, self._ends = (
            array("q", np.asarray(positions)[kept].tobytes()) for positions in (self._starts, self._ends)
        )

    def __len__(self) -> int:
        return len(self._ends) + len(self._waiting)

    def slice(self, start: int, stop: int) -> Iterator[str]:
        """Yield the texts start … stop − 1."""
        self._write()
        for first in range(start, stop, _BLOCK):
            starts, ends = (positions[first : min(first + _BLOCK, stop)] for positions in (self._starts, self._ends))
            begin = starts[0]
            self._file.seek(begin)
            content = self._file.read(ends[-1] - begin)
            limits = zip(starts, ends, strict=True)
            yield from [content[low - begin : high - begin].decode() for low, high in limits]

    def close(self) -> None:
        self._file.close()

    def _write(self) -> None:
        """Write the texts that were appended since the last time."""
        if not self._waiting:
            return
        positions = list(accumulate(map(len, self._waiting), initial=self._size))
        try:
            if positions[-1] > _IN_MEMORY and isinstance(self._file, io.BytesIO):
                self._move_to_disk(self._file)
            self._file.write(b"".join(self._waiting))
        except OSError as error:
            raise disk_error(error, cache_folder() / "temporary file") from error
        self._starts.extend(positions[:-1])
        self._ends.extend(positions[1:])
        self._size = positions[-1]
        self._waiting = []

    def _move_to_disk(self, memory: io.BytesIO) -> None:
        cache_folder().mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=cache_folder())  # noqa: SIM115
        self._file.write(memory.getbuffer())
