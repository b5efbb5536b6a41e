"""A paragraph of a Word document: its runs as segments with tags, and translations as runs."""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from regard.documents.part import Raw
from regard.documents.xml_text import XmlToken, attribute_values, escape
from regard.text.html_tokens import HtmlToken
from regard.text.markup import TaggedText

WORD = "w:"
"""How names of WordprocessingML begin here, whatever prefix a file has"""
_BREAKS = {"br", "cr", "tab", "ptab"}
_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen", "smartTagPr", "customXmlPr"}
"""What Word finds out again by itself"""
_WRAPPERS = {"hyperlink", "ins", "moveTo", "bdo", "dir"}
_TRANSPARENT = {"smartTag", "customXml"}
_PROOFING = re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^>]*?(?:/>|></[^>]*>)")
_OUR_TAG = re.compile(r"<(/?)x(\d+)(/?)>")
_MOST_TAGS = 200
"""A segment with more tags loses the formatting of words, as its tags would take long to place"""
_MOST_FIELDS = 4
"""Fields inside each other; inner ones stay as they are"""

Range = tuple[str, int, int, str]
"""XML before, start and end in the file's text, XML after"""


@dataclass(frozen=True)
class Wrapper:
    """An element around runs, such as a hyperlink."""

    opening: str
    closing: str


@dataclass(frozen=True)
class Piece:
    """Text in one format, or XML that stays as it is."""

    text: str = ""
    format: str = ""
    """The properties of the run as XML"""
    kept: tuple[Range, ...] = ()
    wrappers: tuple[Wrapper, ...] = ()
    is_break: bool = False
    """Whether a segment ends here"""
    field: str = ""
    """begin, separate or end, for the marks of a field"""
    instruction: str = ""
    """Of a field"""

    @property
    def has_letter(self) -> bool:
        return any(map(str.isalpha, self.text))


@dataclass(frozen=True)
class DocxSegment:
    """Pieces between two breaks, as a text with tags."""

    pieces: tuple[Piece, ...]
    tagged: TaggedText | None = None
    """None: the pieces stay as they are"""
    tags: tuple[Wrapper | Piece, ...] = ()
    """What each tag stands for; a piece with text stands for its format"""
    base: Piece = Piece()
    """Format and wrappers of text outside of tags"""

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> "Iterator[DocxSegment]":
        """Yield the segment, without what has no text at both ends as segments of their own."""
        texts = [n for n, piece in enumerate(pieces) if piece.text.strip()]
        if not any(piece.has_letter for piece in pieces):
            yield cls(tuple(pieces))
            return
        first, end = texts[0], texts[-1] + 1
        inner = list(pieces[first:end])
        lead, trail = inner[0], inner[-1]
        before = lead.text[: len(lead.text) - len(lead.text.lstrip())]
        after = trail.text[len(trail.text.rstrip()) :]
        inner[0] = replace(inner[0], text=inner[0].text.lstrip())
        inner[-1] = replace(inner[-1], text=inner[-1].text.rstrip())
        yield cls((*pieces[:first], replace(lead, text=before)))
        yield cls._tagged(inner)
        yield cls((replace(trail, text=after), *pieces[end:]))

    @classmethod
    def _tagged(cls, pieces: Sequence[Piece]) -> "DocxSegment":
        texts = [piece for piece in pieces if piece.text]
        counts = Counter[str]()
        for piece in texts:
            counts[piece.format] += len(piece.text)
        wrappers = texts[0].wrappers
        for piece in pieces:
            wrappers = wrappers[: _n_common(wrappers, piece.wrappers)]
        base = Piece(format=counts.most_common(1)[0][0], wrappers=wrappers)
        writer = _TokenWriter(base)
        for piece in pieces:
            writer.add(piece)
        if len(writer.tags) > _MOST_TAGS:
            text = HtmlToken("text", escape("".join(piece.text for piece in pieces)))
            return cls(tuple(pieces), TaggedText.of_tokens([text], is_html=True), (), base)
        return cls(tuple(pieces), writer.close(), tuple(writer.tags), base)

    def translated(self, translation: str) -> Iterator[Piece]:
        """Yield the pieces of the translation; those without text that have no tag follow at its end."""
        open_tags: list[Wrapper | Piece] = []
        at = 0
        for tag in [*_OUR_TAG.finditer(translation), None]:
            end = len(translation) if tag is None else tag.start()
            wrappers = self.base.wrappers + tuple(tag for tag in open_tags if isinstance(tag, Wrapper))
            if end > at:
                formats = [tag.format for tag in open_tags if isinstance(tag, Piece)]
                text = html.unescape(translation[at:end])
                yield Piece(text, formats[-1] if formats else self.base.format, wrappers=wrappers)
            if tag is None:
                break
            at = tag.end()
            meaning = self.tags[int(tag[2])]
            if tag[3] and isinstance(meaning, Piece):
                yield replace(meaning, wrappers=wrappers)
            elif tag[1]:
                open_tags.remove(meaning)
            else:
                open_tags.append(meaning)
        yield from (piece for piece in self.pieces if not piece.text and not self.tags)


class _TokenWriter:
    """Writes pieces as tokens with numbered tags."""

    def __init__(self, base: Piece) -> None:
        self.base = base
        self.tokens: list[HtmlToken] = []
        self.tags: list[Wrapper | Piece] = []
        self.open: list[tuple[Wrapper | str, str]] = []
        """What is open, and the names of the tags"""

    def add(self, piece: Piece) -> None:
        meanings: list[Wrapper | str] = list(piece.wrappers[len(self.base.wrappers) :])
        if piece.text.strip() and piece.format != self.base.format:
            meanings.append(piece.format)
        n_common = _n_common([meaning for meaning, _ in self.open], meanings)
        self._close(n_common)
        for meaning in meanings[n_common:]:
            name = self._number(Piece("…", meaning) if isinstance(meaning, str) else meaning)
            self.open.append((meaning, name))
            self.tokens.append(HtmlToken("open", f"<{name}>", name))
        if piece.text:
            self.tokens.append(HtmlToken("text", escape(piece.text)))
        else:
            name = self._number(piece)
            self.tokens.append(HtmlToken("empty", f"<{name}/>", name))

    def close(self) -> TaggedText:
        self._close(0)
        return TaggedText.of_tokens(self.tokens, is_html=True)

    def _number(self, meaning: Wrapper | Piece) -> str:
        self.tags.append(meaning)
        return f"x{len(self.tags) - 1}"

    def _close(self, n_kept: int) -> None:
        while len(self.open) > n_kept:
            name = self.open.pop()[1]
            self.tokens.append(HtmlToken("close", f"</{name}>", name))


@dataclass(frozen=True)
class ParagraphBlock:
    """The content of a paragraph."""

    start: int
    end: int
    parts: tuple[DocxSegment, ...]
    prefix: str
    """Of the names of WordprocessingML"""

    @property
    def segments(self) -> Sequence[TaggedText]:
        return [part.tagged for part in self.parts if part.tagged]

    def render(self, translations: Sequence[str], raw: Raw) -> str:
        remaining = iter(translations)
        pieces = [
            piece for part in self.parts for piece in (part.translated(next(remaining)) if part.tagged else part.pieces)
        ]
        written, open_wrappers = "", tuple[Wrapper, ...]()
        for piece in [*pieces, Piece()]:
            n_common = _n_common(open_wrappers, piece.wrappers)
            written += "".join(wrapper.closing for wrapper in reversed(open_wrappers[n_common:]))
            written += "".join(wrapper.opening for wrapper in piece.wrappers[n_common:])
            open_wrappers = piece.wrappers
            written += self._xml(piece, raw)
        return written

    def _xml(self, piece: Piece, raw: Raw) -> str:
        if piece.kept:
            return "".join(before + raw(start, end) + after for before, start, end, after in piece.kept)
        return run_xml(piece, self.prefix) if piece.text else ""


def run_xml(piece: Piece, prefix: str) -> str:
    """Return a piece of text as a run."""
    text = f'<{prefix}t xml:space="preserve">{escape(piece.text)}</{prefix}t>'
    return f"<{prefix}r>{piece.format}{text}</{prefix}r>"


class ParagraphReader:
    """Reads the paragraphs of a part."""

    def __init__(self, text: str, tokens: Sequence[XmlToken], closing: Mapping[int, int], prefix: str) -> None:
        self.text = text
        self.tokens = tokens
        self.closing = closing
        self.prefix = prefix

    def read(self, i: int) -> ParagraphBlock | None:
        """Return the block of the paragraph whose tag is token i, or None if there is nothing to translate."""
        first = i + 1
        for child, last in self._children(i):
            if self._name(child) == "pPr":
                first = last + 1
        pieces = self._join_fields(self._pieces(i, first, ()))
        parts, group = list[DocxSegment](), list[Piece]()
        for piece in pieces:
            if piece.is_break:
                parts += [*DocxSegment.of(group), DocxSegment((piece,))]
                group = []
            else:
                group.append(piece)
        parts += DocxSegment.of(group)
        if not any(part.tagged for part in parts):
            return None
        start, end = self.tokens[first].start, self.tokens[self.closing[i]].start
        return ParagraphBlock(start, end, tuple(parts), self.prefix)

    def _children(self, i: int, first: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield the index of each child's opening and closing tag."""
        child = i + 1 if first is None else first
        while child < self.closing[i]:
            last = self.closing.get(child, child)
            if self.tokens[child].name:
                yield child, last
            child = last + 1

    def _name(self, i: int) -> str:
        name = self.tokens[i].name
        return name.removeprefix(WORD) if name.startswith(WORD) else f":{name}"

    def _pieces(self, i: int, first: int, wrappers: tuple[Wrapper, ...]) -> Iterator[Piece]:
        """Yield the pieces of an element's children."""
        for child, last in self._children(i, first):
            name, has_content = self._name(child), last > child
            if name in _DROPPED:
                continue
            if name == "r":
                yield from self._run_pieces(child, wrappers) if has_content else ()
            elif name in _WRAPPERS and has_content:
                wrapper = Wrapper(self._source(child), self._source(last))
                yield from self._pieces(child, child + 1, (*wrappers, wrapper))
            elif name in _TRANSPARENT and has_content:
                yield from self._pieces(child, child + 1, wrappers)
            elif name == "sdt" and has_content:
                yield from self._control_pieces(child, wrappers)
            else:
                yield Piece(kept=(self._range(child, last),), wrappers=wrappers)

    def _control_pieces(self, i: int, wrappers: tuple[Wrapper, ...]) -> Iterator[Piece]:
        """Yield the pieces of a content control: its beginning and its end break the sentence."""
        start = self.tokens[i].start
        for child, last in self._children(i):
            if self._name(child) == "sdtContent" and last > child:
                before, after = (
                    (start, self.tokens[child].end),
                    (self.tokens[last].start, self.tokens[self.closing[i]].end),
                )
                yield Piece(kept=(("", *before, ""),), wrappers=wrappers, is_break=True)
                yield from self._pieces(child, child + 1, wrappers)
                yield Piece(kept=(("", *after, ""),), wrappers=wrappers, is_break=True)
                return
        yield Piece(kept=(self._range(i, self.closing[i]),), wrappers=wrappers)

    def _run_pieces(self, i: int, wrappers: tuple[Wrapper, ...]) -> Iterator[Piece]:
        properties = ""
        for child, last in self._children(i):
            name, inner = self._name(child), self.text[self.tokens[child].end : self.tokens[last].start]
            if name == "rPr":
                inner = _PROOFING.sub("", inner)
                properties = self._source(child) + inner + self._source(last) if inner.strip() else ""
            elif name == "t":
                if inner:
                    yield Piece(html.unescape(inner), properties, wrappers=wrappers)
            elif name == "noBreakHyphen":
                yield Piece("\u2011", properties, wrappers=wrappers)
            elif name not in _DROPPED:
                field = attribute_values(self.text, self.tokens[child]).get(f"{self.prefix}fldCharType", "")
                yield Piece(
                    kept=(self._range(child, last, f"<{self.prefix}r>{properties}", f"</{self.prefix}r>"),),
                    wrappers=wrappers,
                    is_break=name in _BREAKS,
                    field=field,
                    instruction=inner if name == "instrText" else "",
                )

    def _join_fields(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Make one piece of each field in the paragraph, which Word computes again, and a wrapper of each link.

        The text of a field that another paragraph begins or ends, as in a table of contents, is translated.
        """
        joined, begins = list[Piece](), list[int]()
        for piece in pieces:
            joined.append(piece)
            if piece.field == "begin":
                begins.append(len(joined) - 1)
            elif piece.field == "end" and begins:
                begin = begins.pop()
                if len(begins) < _MOST_FIELDS:
                    joined[begin:] = self._join_field(joined[begin:])
        return joined

    def _join_field(self, pieces: Sequence[Piece]) -> list[Piece]:
        wrappers = pieces[0].wrappers
        middle = next((n for n, piece in enumerate(pieces) if piece.field == "separate"), 0)
        instruction = "".join(piece.instruction for piece in pieces[:middle])
        if instruction.split()[:1] == ["HYPERLINK"]:
            link = Wrapper(*("".join(map(self._kept_xml, part)) for part in (pieces[: middle + 1], pieces[-1:])))
            n = len(wrappers)
            return [replace(p, wrappers=(*wrappers, link, *p.wrappers[n:])) for p in pieces[middle + 1 : -1]]
        kept = [part for piece in pieces for part in piece.kept or ((run_xml(piece, self.prefix), 0, 0, ""),)]
        return [Piece(kept=tuple(kept), wrappers=wrappers)]

    def _kept_xml(self, piece: Piece) -> str:
        return "".join(before + self.text[start:end] + after for before, start, end, after in piece.kept)

    def _source(self, i: int) -> str:
        return self.text[self.tokens[i].start : self.tokens[i].end]

    def _range(self, child: int, last: int, before: str = "", after: str = "") -> Range:
        return before, self.tokens[child].start, self.tokens[last].end, after


def _n_common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items at the beginning are the same."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
