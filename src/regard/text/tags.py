"""Markup and placeholders, taken out of a text and put into another by the words that they stand at."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TAG = r"""</?[A-Za-z](?:"[^"]*"|'[^']*'|[^<>"'])*>|<!--.*?-->"""
_PLACEHOLDER = r"\{\{[^{}]*\}\}|\$?\{[^{}\s]*\}|%\([A-Za-z_]\w*\)[sdif]|%\d+\$[sd]|%[sd]\b"
_MARKUP = re.compile(f"{_TAG}|{_PLACEHOLDER}")
_NAME = re.compile(r"</?([A-Za-z][\w:-]*)")
_WORD_AND_MARKS = re.compile(r"(.*?)([^\w\s]*)", re.DOTALL)
# Elements that part the words on their two sides, without a space between them.
_BLOCK = re.compile(
    r"</?(address|article|aside|blockquote|br|caption|d[dlt]|div|fig\w+|footer|h[1-6r]|header|li|main|nav|[ou]l|option|p|pre|section"
    r"|t(able|body|d|foot|h|head|r))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TagPair:
    """An element around words, from its opening to its closing tag."""

    open: str
    close: str
    first: int
    end: int
    """It holds the words first … end − 1"""
    with_mark: bool
    """Whether the punctuation mark behind its last word is inside"""


@dataclass(frozen=True)
class Single:
    """Something that holds no word: a placeholder, an empty element, a tag without its partner."""

    text: str
    gap: int
    """So many words stand before it"""
    left: bool
    right: bool
    """Whether it touches what stands there"""
    within: TagPair | None = None
    """The innermost element around it"""


@dataclass(frozen=True)
class Marked:
    """A text, and the markup that was taken out of it."""

    text: str
    plain: str
    pairs: tuple[TagPair, ...]
    """Outer ones first"""
    singles: tuple[Single, ...]

    @classmethod
    def of(cls, text: str) -> "Marked":
        marks = list(_MARKUP.finditer(text))
        plain, places = _without(text, marks)
        words = [word.span() for word in re.finditer(r"\S+", plain)]
        partners = _partners([mark.group() for mark in marks])
        done = set(partners.values())
        pairs: list[tuple[int, int, TagPair]] = []
        singles: list[Single] = []
        for i, mark in enumerate(marks):
            if i in done:
                continue
            j = partners.get(i, i)
            held = [n for n, (start, stop) in enumerate(words) if i < j and start < places[j] and stop > places[i]]
            if held:
                before = plain[: places[j]].rstrip()[-1:]
                pair = TagPair(mark.group(), marks[j].group(), held[0], held[-1] + 1, not before.isalnum())
                pairs.append((i, j, pair))
                continue
            done |= set(range(i, j + 1))  # what is inside goes along
            start, stop = mark.start(), marks[j].end()
            gap = sum(end <= places[i] for _, end in words)
            left, right = (
                bool(c) and not c.isspace() for c in (text[max(0, start - 1) : start], text[stop : stop + 1])
            )
            around = [pair for first, last, pair in pairs if first < i and j < last]
            singles.append(Single(text[start:stop], gap, left, right, around[-1] if around else None))
        return cls(text, plain, tuple(pair for *_, pair in pairs), tuple(singles))

    def restored(self, words: Sequence[str], source_of: Sequence[int]) -> str:
        """The markup around other words, of which word j comes from the plain text's word source_of[j].

        Each word gets what stood around the one that it comes from, so elements stay well nested but may come in
        several parts. One whose words are all lost is left empty rather than left out.
        """
        around = [[p for p in self.pairs if p.first <= source < p.end] for source in source_of]
        between: dict[int, list[Single]] = {}
        for single in (*self.singles, *self._lost(around)):
            between.setdefault(self._place(single.gap, source_of), []).append(single)
        writer = _Writer()
        for j, (word, wanted) in enumerate(zip([*words, None], [*around, []], strict=True)):
            writer.pass_on(wanted, between.get(j, []))
            if word is not None:
                writer.word(word)
        return writer.text

    def _lost(self, around: Sequence[Sequence[TagPair]]) -> list[Single]:
        """Elements none of whose words is there, each in the one that it stood in"""
        found = []
        for n, pair in enumerate(self.pairs):
            if not any(pair in stack for stack in around):
                outer = [p for p in self.pairs[:n] if p.first <= pair.first and pair.end <= p.end]
                within = next((p for p in reversed(outer) if any(p in stack for stack in around)), None)
                found.append(Single(pair.open + pair.close, pair.first, False, False, within))
        return found

    def _place(self, gap: int, source_of: Sequence[int]) -> int:
        """Before which of the other words: the one from behind the gap, else behind the one from before it"""
        if gap == 0 or gap >= len(self.plain.split()):
            return 0 if gap == 0 else len(source_of)
        behind = [j for j, source in enumerate(source_of) if source == gap]
        before = [j + 1 for j, source in enumerate(source_of) if source == gap - 1]
        later = [j for j, source in enumerate(source_of) if source > gap]
        return min(behind) if behind else max(before) if before else min(later, default=len(source_of))


class _Writer:
    """Writes words, and around and between them what was open before and is to be open from now on."""

    def __init__(self) -> None:
        self.text = ""
        self.open: Sequence[TagPair] = ()
        self.marks = ""  # the last word's punctuation, inside or outside of what ends there
        self.apart = False  # whether a space is due

    def pass_on(self, wanted: Sequence[TagPair], singles: Sequence[Single]) -> None:
        """From the last word to the next: close, say what stands between, open"""
        common = sum(1 for _ in _same(self.open, wanted))
        for pair in reversed(self.open[common:]):
            inside = [single for single in singles if single.within is pair]
            if pair.with_mark or inside:
                self._flush()
            self._say(inside)
            self.text += pair.close
        self._flush()
        edges = [*self.open[common:], *wanted[common:]]
        self._say([single for single in singles if not any(single.within is pair for pair in edges)])
        for pair in wanted[common:]:
            self.text += (" " if self.apart else "") + pair.open
            self.apart = False
            if not any(pair is before for before in self.open):
                self._say([single for single in singles if single.within is pair])
        self.open = wanted

    def word(self, word: str) -> None:
        core, marks = _WORD_AND_MARKS.fullmatch(word).groups()  # type: ignore[union-attr]
        core, self.marks = (core, marks) if core else (marks, "")
        self.text += (" " if self.apart else "") + core
        self.apart = True

    def _say(self, singles: Sequence[Single]) -> None:
        for single in singles:
            self.text += (" " if self.apart and not single.left else "") + single.text
            self.apart = not single.right

    def _flush(self) -> None:
        self.text, self.marks = self.text + self.marks, ""


def _without(text: str, marks: Sequence[re.Match[str]]) -> tuple[str, list[int]]:
    """The text without its markup, and where each mark stood in it"""
    plain, places, end = "", [], 0
    for mark in marks:
        plain += text[end : mark.start()]
        end = mark.end()
        parts = _BLOCK.match(mark.group()) is not None and plain != "" and not plain[-1].isspace()
        opens = not mark.group().startswith("</")
        places.append(len(plain) + (parts and opens))
        plain += " " if parts else ""
    return plain + text[end:], places


def _same(left: Sequence[TagPair], right: Sequence[TagPair]) -> Iterator[TagPair]:
    for one, other in zip(left, right, strict=False):
        if one is not other:
            return
        yield one


def _partners(marks: Sequence[str]) -> dict[int, int]:
    """Opening tag → closing tag, by their numbers; those without a partner are not there"""
    waiting: list[tuple[int, str]] = []
    found = {}
    for i, mark in enumerate(marks):
        name = _NAME.match(mark)
        if name is None or mark.endswith("/>"):
            continue
        if not mark.startswith("</"):
            waiting.append((i, name[1].lower()))
        elif (last := next((w for w in reversed(waiting) if w[1] == name[1].lower()), None)) is not None:
            found[last[0]] = i
            del waiting[waiting.index(last) :]  # what was opened inside and not closed has no partner
    return found
