"""Markup and placeholders, taken out of a text and put into another by the words that they stand at."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TAG = r"</?[A-Za-z][^<>]*>|<!--.*?-->"
_PLACEHOLDER = r"\{\{[^{}]*\}\}|\$?\{[^{}\s]*\}|%\([A-Za-z_]\w*\)[sdif]|%\d+\$[sd]|%[sd]\b"
_MARKUP = re.compile(f"{_TAG}|{_PLACEHOLDER}")
_NAME = re.compile(r"</?([A-Za-z][\w:-]*)")
_WORD_AND_MARKS = re.compile(r"(.*?)([^\w\s]*)", re.DOTALL)


@dataclass(frozen=True)
class Pair:
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


@dataclass(frozen=True)
class Marked:
    """A text, and the markup that was taken out of it."""

    text: str
    plain: str
    pairs: tuple[Pair, ...]
    """Outer ones first"""
    singles: tuple[Single, ...]

    @classmethod
    def of(cls, text: str) -> "Marked":
        marks = list(_MARKUP.finditer(text))
        plain = _MARKUP.sub("", text)
        places, removed = [], 0
        for mark in marks:
            places.append(mark.start() - removed)
            removed += len(mark.group())
        words = [word.span() for word in re.finditer(r"\S+", plain)]
        partners = _partners([mark.group() for mark in marks])
        pairs, singles, done = [], [], set(partners.values())
        for i, mark in enumerate(marks):
            if i in done:
                continue
            j = partners.get(i, i)
            held = [n for n, (start, stop) in enumerate(words) if start < places[j] and stop > places[i]]
            if held:
                before = plain[: places[j]].rstrip()[-1:]
                pairs.append(Pair(mark.group(), marks[j].group(), held[0], held[-1] + 1, not before.isalnum()))
                continue
            done |= set(range(i, j + 1))  # what is inside goes along
            start, stop = mark.start(), marks[j].end()
            gap = sum(end <= places[i] for _, end in words)
            touches = [bool(c) and not c.isspace() for c in (text[max(0, start - 1) : start], text[stop : stop + 1])]
            singles.append(Single(text[start:stop], gap, *touches))
        return cls(text, plain, tuple(pairs), tuple(singles))

    def restored(self, words: Sequence[str], source_of: Sequence[int]) -> str:
        """The markup around other words, of which word j comes from the plain text's word source_of[j].

        Each word gets what stood around the one that it comes from, so elements stay well nested but may come in
        several parts. One whose words are all lost is left empty rather than left out.
        """
        around = [[p for p in self.pairs if p.first <= source < p.end] for source in source_of]
        empty = [Single(p.open + p.close, p.first, False, False) for p in self.pairs if not any(p in s for s in around)]
        between: dict[int, list[Single]] = {}
        for single in (*self.singles, *empty):
            between.setdefault(self._place(single.gap, source_of), []).append(single)
        return "".join(_written(words, around, between))

    def _place(self, gap: int, source_of: Sequence[int]) -> int:
        """Before which of the other words: the one from behind the gap, else behind the one from before it"""
        if gap == 0 or gap >= len(self.plain.split()):
            return 0 if gap == 0 else len(source_of)
        behind = [j for j, source in enumerate(source_of) if source == gap]
        before = [j + 1 for j, source in enumerate(source_of) if source == gap - 1]
        later = [j for j, source in enumerate(source_of) if source > gap]
        return min(behind) if behind else max(before) if before else min(later, default=len(source_of))


def _written(words: Sequence[str], around: Sequence[Sequence[Pair]], between: dict[int, list[Single]]) -> Iterator[str]:
    open_: Sequence[Pair] = ()
    marks = ""  # the last word's punctuation, inside or outside of what ends there
    touching = True
    for j, (word, wanted) in enumerate(zip([*words, ""], [*around, ()], strict=True)):
        common = sum(1 for _ in _same(open_, wanted))
        ending = list(reversed(open_[common:]))
        inside = [pair.close for pair in ending if not pair.with_mark]
        yield "".join([*inside, marks, *(pair.close for pair in ending if pair.with_mark)])
        for single in between.get(j, ()):
            yield ("" if touching or single.left else " ") + single.text
            touching = single.right
        if j == len(words):
            return
        core, marks = _WORD_AND_MARKS.fullmatch(word).groups()  # type: ignore[union-attr]
        core, marks = (core, marks) if core else (marks, "")
        yield ("" if touching else " ") + "".join(pair.open for pair in wanted[common:]) + core
        open_, touching = wanted, False


def _same(left: Sequence[Pair], right: Sequence[Pair]) -> Iterator[Pair]:
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
