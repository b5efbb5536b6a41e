"""The paragraphs of an OpenDocument text as segments with tags."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from regard.documents.part import Block, Raw
from regard.documents.xml_text import XmlToken, XmlTokenKind
from regard.text.html_tokens import HtmlToken
from regard.text.markup import TaggedText

_PARAGRAPHS = {"text:p", "text:h"}
_INLINE = {"text:span", "text:a", "text:meta"}
_BREAKS = {"text:tab", "text:line-break"}
_SKIPPED = {"text:tracked-changes"}
_OUR_TAG = re.compile(r"<(/?)x(\d+)/?>")
_MOST_TAGS = 100
"""A segment with more tags is split at each of them"""


@dataclass(frozen=True, slots=True)
class Item:
    """A part of a paragraph: text, an inline tag, or (EMPTY) an element that stays as it is."""

    kind: XmlTokenKind
    start: int
    end: int
    partner: int = -1
    """For an inline tag: the start of the tag that it forms a pair with"""


@dataclass(frozen=True)
class InlineBlock:
    """A range of a paragraph whose tags have numbers: <x0>…</x0>, <x1/>."""

    start: int
    end: int
    segments: tuple[TaggedText, ...]
    tags: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    """For each number the ranges of the opening and of the closing tag"""

    def render(self, translations: Sequence[str], raw: Raw) -> str:
        def written(tag: re.Match[str]) -> str:
            opening, closing = self.tags[int(tag[2])]
            return raw(*(closing if tag[1] else opening))

        return _OUR_TAG.sub(written, translations[0])


class OdtReader:
    """Finds the blocks of a part."""

    def __init__(self, text: str, tokens: Sequence[XmlToken], closing: Mapping[int, int]) -> None:
        self.text = text
        self.tokens = tokens
        self.closing = closing
        self.opening = {j: i for i, j in closing.items()}

    def blocks(self) -> Iterator[Block]:
        return self._blocks(0, len(self.tokens))

    def _blocks(self, first: int, end: int) -> Iterator[Block]:
        """Yield the blocks in tokens first … end − 1, which are not in a paragraph themselves."""
        i = first
        while i < end:
            token, last = self.tokens[i], self.closing.get(i, i)
            if token.kind is XmlTokenKind.OPEN and token.name in _PARAGRAPHS:
                yield from self._paragraph(i + 1, last)
                i = last
            elif token.kind is XmlTokenKind.OPEN and token.name in _SKIPPED:
                i = last
            i += 1

    def _paragraph(self, first: int, end: int) -> Iterator[Block]:
        """Yield the blocks of a paragraph, and those of notes, text boxes and the like inside it."""
        items, i = list[Item](), first
        while i < end:
            token = self.tokens[i]
            if token.name in _BREAKS:
                yield from self._split(items)
                items = []
            elif token.kind is XmlTokenKind.TEXT:
                items.append(Item(XmlTokenKind.TEXT, token.start, token.end))
            elif token.name in _INLINE and token.kind is not XmlTokenKind.EMPTY:
                partner = self.closing[i] if token.kind is XmlTokenKind.OPEN else self.opening[i]
                items.append(Item(token.kind, token.start, token.end, self.tokens[partner].start))
            else:
                last = self.closing.get(i, i)
                items.append(Item(XmlTokenKind.EMPTY, token.start, self.tokens[last].end))
                yield from self._blocks(i + 1, last)
                i = last
            i += 1
        yield from self._split(items)

    def _split(self, items: Sequence[Item]) -> Iterator[Block]:
        """Yield the blocks of what is between two breaks: one, unless an element goes on behind a break."""
        is_long = sum(item.kind is not XmlTokenKind.TEXT for item in items) > _MOST_TAGS
        starts = {item.start for item in items}
        parts: list[list[Item]] = [[]]
        for item in items:
            is_cut = item.kind in (XmlTokenKind.OPEN, XmlTokenKind.CLOSE) and item.partner not in starts
            if is_cut or (is_long and item.kind is not XmlTokenKind.TEXT):
                parts.append([])
            else:
                parts[-1].append(item)
        for part in parts:
            yield from self._block(part) if len(parts) == 1 else self._split(part)

    def _block(self, items: Sequence[Item]) -> Iterator[Block]:
        items = self._peel(items)
        if not any(any(map(str.isalpha, self._content(item))) for item in items):
            return
        start = items[0].end - len(self.text[items[0].start : items[0].end].lstrip())
        end = items[-1].start + len(self.text[items[-1].start : items[-1].end].rstrip())
        tokens, tags, numbers = list[HtmlToken](), list[tuple[tuple[int, int], tuple[int, int]]](), dict[int, int]()
        for item in items:
            if item.kind is XmlTokenKind.TEXT:
                tokens.append(HtmlToken("text", self.text[max(start, item.start) : min(end, item.end)]))
            elif item.kind is XmlTokenKind.CLOSE:
                number = numbers[item.partner]
                tags[number] = (tags[number][0], (item.start, item.end))
                tokens.append(HtmlToken("close", f"</x{number}>", f"x{number}"))
            else:
                number = numbers[item.start] = len(tags)
                tags.append(((item.start, item.end), (item.end, item.end)))
                is_open = item.kind is XmlTokenKind.OPEN
                tag = f"<x{number}>" if is_open else f"<x{number}/>"
                tokens.append(HtmlToken("open" if is_open else "empty", tag, f"x{number}"))
        yield InlineBlock(start, end, (TaggedText.of_tokens(tokens, is_html=True),), tuple(tags))

    def _peel(self, items: Sequence[Item]) -> Sequence[Item]:
        """Leave out what is no text at both ends: spaces, tags around the whole, pictures."""
        first, end = 0, len(items)
        while first < end:
            start, last = items[first], items[end - 1]
            if start.kind is XmlTokenKind.OPEN and start.partner == last.start:
                first, end = first + 1, end - 1
            elif start.partner < 0 and not self._content(start).strip():
                first += 1
            elif last.partner < 0 and not self._content(last).strip():
                end -= 1
            else:
                break
        return items[first:end]

    def _content(self, item: Item) -> str:
        return html.unescape(self.text[item.start : item.end]) if item.kind is XmlTokenKind.TEXT else ""
