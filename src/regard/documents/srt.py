"""SubRip subtitles: the text of each cue is translated; its number, times and number of lines stay."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from regard.documents.document import EncodedPart
from regard.documents.errors import DocumentError
from regard.documents.limits import DocumentLimits
from regard.documents.part import Part, Raw
from regard.documents.xml_text import decode_text
from regard.text.html_tokens import HtmlToken
from regard.text.markup import TaggedText
from regard.text.units import lacks_spaces

_TIME = r"\d{1,3}:\d{2}:\d{2}[,.]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}")
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_TAG = re.compile(r"</?(?P<name>b|i|u|s|font)(?:\s[^<>]*)?>|\{\\[^{}]*\}", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_SPEAKER = re.compile(r"\s*[-–—]\s*\w")
_WORD = re.compile(r"(?:<[^<>]*>|[^\s<]|<(?![^<>]*>))+")
_CHARACTER = re.compile(r"(?:<[^/<>][^<>]*>)*.(?:</[^<>]*>)*")
"""With the tags that it must not be separated from"""

Span = tuple[int, int]


@dataclass(frozen=True)
class CueBlock:
    """What one speaker says in a cue."""

    start: int
    end: int
    segments: tuple[TaggedText, ...]
    lines: tuple[str, ...]
    """The lines of the source"""
    newline: str

    def render(self, translations: Sequence[str], raw: Raw) -> str:
        return self.newline.join(break_lines(translations[0], [len(_TAG.sub("", line)) for line in self.lines]))


def read_srt(content: bytes, language: str, limits: DocumentLimits) -> EncodedPart:
    text, encoding = decode_text(content)
    lines = [line.span() for line in _LINE.finditer(text)]
    cues = list(_cues(text, lines))
    if not cues and text.strip():
        raise DocumentError("has no subtitles; is it an .srt file?")
    newline = "\r\n" if "\r\n" in text else "\n"
    blocks = (_block(text, speech, newline) for cue in cues for speech in _speeches(text, cue))
    return EncodedPart(Part(text, [block for block in blocks if block is not None]), encoding)


def break_lines(text: str, widths: Sequence[int]) -> list[str]:
    """Break a text into as many lines as there are widths, in about their proportions."""
    if len(widths) == 1:
        return [text]
    is_spaced = not lacks_spaces(_TAG.sub("", text))
    words = _WORD.findall(text) if is_spaced else _CHARACTER.findall(text)
    lengths = list(accumulate((len(_TAG.sub("", word)) + is_spaced for word in words), initial=0))
    lines, first, total = list[str](), 0, max(1, sum(widths))
    for n, width in enumerate(accumulate(widths[:-1]), start=1):
        goal = lengths[-1] * width / total
        after = bisect_left(lengths, goal)
        nearest = after - 1 if after and goal - lengths[after - 1] <= lengths[min(after, len(words))] - goal else after
        end = min(max(nearest, first + 1), max(first + 1, len(words) - (len(widths) - n)))
        lines.append((" " if is_spaced else "").join(words[first:end]))
        first = end
    return [*lines, (" " if is_spaced else "").join(words[first:])]


def _cues(text: str, lines: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield the lines of text of each cue: those between its times and an empty line or the next cue."""
    cue: list[Span] | None = None
    for n, line in enumerate(lines):
        content = text[slice(*line)]
        following = text[slice(*lines[n + 1])] if n + 1 < len(lines) else ""
        if _TIMES.match(content):
            yield from [cue] if cue is not None else []
            cue = []
        elif not content.strip() or (content.strip().isdecimal() and _TIMES.match(following)):
            yield from [cue] if cue is not None else []
            cue = None
        elif cue is not None:
            cue.append(line)
    yield from [cue] if cue is not None else []


def _speeches(text: str, cue: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield the lines of each speaker; a dash begins another one."""
    speech: list[Span] = []
    for line in cue:
        if speech and _SPEAKER.match(_TAG.sub("", text[slice(*line)])):
            yield speech
            speech = []
        speech.append(line)
    if speech:
        yield speech


def _block(text: str, speech: Sequence[Span], newline: str) -> CueBlock | None:
    """Return the block from the first to the last word; the tags around all of it stay where they are."""
    first, end = speech[0][0], speech[-1][1]
    tags = [tag.span() for tag in _TAG.finditer(text, first, end)]
    edges = [first, *(at for tag in tags for at in tag), end]
    chunks = [(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True) if text[start:stop].strip()]
    if not any(map(str.isalpha, "".join(text[slice(*chunk)] for chunk in chunks))):
        return None
    (start, first_end), (last_start, last_end) = chunks[0], chunks[-1]
    start = first_end - len(text[start:first_end].lstrip())
    end = last_start + len(text[last_start:last_end].rstrip())
    if not _is_balanced(text[start:end]):  # a tag around some of the words only begins or ends at an edge
        start, end = min(start, tags[0][0]), max(end, tags[-1][1])
    tokens = list(_tokens(text[start:end]))
    lines = tuple(line for line in re.split(r"\r\n?|\n", text[start:end]) if line.strip())
    return CueBlock(start, end, (TaggedText.of_tokens(tokens),), lines, newline)


def _is_balanced(text: str) -> bool:
    """Return whether every tag that is opened is closed, and the reverse."""
    opened: list[str] = []
    for token in _tokens(text):
        if token.kind == "open":
            opened.append(token.name)
        elif token.kind == "close" and (not opened or opened.pop() != token.name):
            return False
    return not opened


def _tokens(text: str) -> Iterator[HtmlToken]:
    end = 0
    for tag in _TAG.finditer(text):
        if tag.start() > end:
            yield HtmlToken("text", _SPACES.sub(" ", text[end : tag.start()]))
        name = (tag["name"] or "").lower()
        if not name:
            yield HtmlToken("other", tag[0])
        else:
            yield HtmlToken("close" if tag[0].startswith("</") else "open", tag[0], name)
        end = tag.end()
    if end < len(text):
        yield HtmlToken("text", _SPACES.sub(" ", text[end:]))
