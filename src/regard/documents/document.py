"""Document: the segments of a file, and the file with their translations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from regard.documents.archive import Archive
from regard.documents.part import Part
from regard.text.markup import TaggedText


class Document(Protocol):
    """A file that can be translated."""

    @property
    def segments(self) -> Sequence[TaggedText]:
        """Texts to translate"""

    def write(self, translations: Sequence[str]) -> bytes:
        """Return the file with the translations of its segments, which are what `TaggedText.restore` returns."""


@dataclass(frozen=True)
class EncodedPart:
    """A part and the encoding of its file."""

    part: Part
    encoding: str

    @property
    def segments(self) -> Sequence[TaggedText]:
        return self.part.segments

    def write(self, translations: Sequence[str]) -> bytes:
        """Characters that the encoding lacks are written as references."""
        return self.part.write(translations).encode(self.encoding, "xmlcharrefreplace")


@dataclass(frozen=True)
class PackageDocument:
    """An archive some of whose files have segments."""

    archive: Archive
    parts: Mapping[str, Document]

    @property
    def segments(self) -> Sequence[TaggedText]:
        return [segment for part in self.parts.values() for segment in part.segments]

    def write(self, translations: Sequence[str]) -> bytes:
        return self.archive.write(dict(self._written(iter(translations))))

    def _written(self, translations: Iterator[str]) -> Iterator[tuple[str, bytes]]:
        for name, part in self.parts.items():
            yield name, part.write(list(islice(translations, len(part.segments))))
