"""A text with blocks that are replaced by their translations. Everything else stays as it is, byte for byte."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from regard.documents.xml_text import XmlToken, attributes
from regard.text.markup import TaggedText

Raw = Callable[[int, int], str]
"""Returns a range of the text, in which blocks are translated"""


class Block(Protocol):
    """A range of a text with segments to translate."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def segments(self) -> Sequence[TaggedText]: ...

    def render(self, translations: Sequence[str], raw: Raw) -> str:
        """Return what replaces the range; `translations` are what `TaggedText.restore` returns."""


@dataclass(frozen=True)
class Edit:
    """A range that is replaced by a text that needs no translation."""

    start: int
    end: int
    text: str
    segments: tuple[TaggedText, ...] = ()

    def render(self, translations: Sequence[str], raw: Raw) -> str:
        return self.text


def attribute_edits(text: str, tokens: Iterable[XmlToken], values: Mapping[str, str]) -> Iterator[Edit]:
    """Yield the edits that give the attributes with these names other values, wherever they are."""
    for token in tokens:
        if any(name in text[token.start : token.end] for name in values):
            yield from (Edit(*span, values[name]) for name, span in attributes(text, token).items() if name in values)


class Part:
    """A text and its blocks. A block may be inside another one: a footnote inside a sentence."""

    def __init__(self, text: str, blocks: Iterable[Block]) -> None:
        self.text = text
        self.blocks = sorted(blocks, key=lambda block: (block.start, -block.end))

    @property
    def segments(self) -> list[TaggedText]:
        return [segment for block in self.blocks for segment in block.segments]

    def write(self, translations: Sequence[str]) -> str:
        """Return the text with the translations of its segments."""
        remaining = iter(translations)
        of_block = [list(islice(remaining, len(block.segments))) for block in self.blocks]
        starts = [block.start for block in self.blocks]

        def raw(start: int, end: int) -> str:
            written, at = list[str](), start
            for i in range(bisect_left(starts, start), bisect_left(starts, end)):
                block = self.blocks[i]
                if at <= block.start and block.end <= end:
                    written += [self.text[at : block.start], block.render(of_block[i], raw)]
                    at = block.end
            return "".join([*written, self.text[at:end]])

        return raw(0, len(self.text))
