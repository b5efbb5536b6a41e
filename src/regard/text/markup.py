"""Tags and placeholders: take them out of a text, and put them into its translation around the corresponding words."""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from regard.text.html_tokens import BLOCK_NAMES, HtmlToken, html_tokens, match_tags
from regard.text.units import UNSPACED, has_spaceless_script, unit_spans

_PLACEHOLDER = re.compile(
    r"\{\{[^{}]*\}\}|\$?\{[^{}\s]*\}|%\([A-Za-z_]\w*\)[sdif]|%\d+\$[sd]|%[sd]\b"
    rf"|(?<![A-Za-z0-9])(?:https?|ftp)://(?:[^\s<>\"'{{}}{UNSPACED}]*[\w/&=#~+-])?"
    r"|(?<![A-Za-z0-9._+-])[A-Za-z0-9._+-]++@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
)
"""Placeholders, URLs and e-mail addresses: no model knows them, and none should change them"""
_SPACE = re.compile(r"\s+")
_WORD_AND_PUNCTUATION = re.compile(r"(.*?)([^\w\s]*)", re.DOTALL)


@dataclass(frozen=True)
class TagElement:
    """An element that contains words: opening tag, words first … end − 1, closing tag."""

    opening: str
    closing: str
    first: int
    end: int
    includes_punctuation: bool
    """Whether the punctuation after its last word is inside the element."""
    parent: "TagElement | None" = None
    """The innermost element around it."""


@dataclass(frozen=True)
class StandaloneTag:
    """Markup without words: a placeholder, a comment, an empty element, or a tag without a matching one."""

    text: str
    n_before: int
    """Number of words before it."""
    touches_left: bool
    """Whether there is no space before it."""
    touches_right: bool
    """Whether there is no space after it."""
    parent: TagElement | None = None
    """The innermost element around it."""
    touches_mark: bool = False
    """Whether a punctuation mark follows without a space."""
    follows_word: bool = False
    """Whether it belongs to the word before it, like the mark of a footnote."""
    precedes_punctuation: bool = False
    """Whether it is between the word before it and the punctuation of that word."""


@dataclass(frozen=True)
class TaggedText:
    """A text split into plain text and markup."""

    text: str
    plain: str
    elements: tuple[TagElement, ...] = ()
    """Outer elements before inner ones."""
    standalone: tuple[StandaloneTag, ...] = ()
    is_html: bool = False
    """Whether words are written with &amp; and the like"""

    @classmethod
    def parse(cls, text: str) -> "TaggedText":
        """Find tags and placeholders in a text and take them out."""
        return cls.of_tokens(html_tokens(text))

    @classmethod
    def of_tokens(cls, tokens: Iterable[HtmlToken], is_html: bool = False) -> "TaggedText":
        """Take tags, and placeholders in the text between them, out of a text.

        With `is_html`, the text between tags is HTML, as `restore` will return; otherwise it is taken as it is.
        """
        tokens = list(tokens)
        parts = [part for token in tokens for part in _without_placeholders(token, is_html)]
        plain, offsets = _plain_text(parts)
        words = unit_spans(plain)
        starts, ends = [start for start, _ in words], [end for _, end in words]
        closing_of = match_tags(parts)
        closing = set(closing_of.values())
        around_words = {
            tag
            for pair in closing_of.items()
            if bisect_right(ends, offsets[pair[0]]) < bisect_left(starts, offsets[pair[1]])
            for tag in pair
        }
        elements, standalone = list[TagElement](), list[StandaloneTag]()
        around: list[tuple[int, TagElement]] = []
        done = -1  # markup inside an element without words stays with it
        for i, part in enumerate(parts):
            if part.kind == "text" or i in closing or i <= done:
                continue
            j = closing_of.get(i, i)
            while around and around[-1][0] < i:
                around.pop()
            parent = around[-1][1] if around else None
            first, end = bisect_right(ends, offsets[i]), bisect_left(starts, offsets[j])
            if i < j and first < end:
                is_mark = not plain[min(ends[end - 1], offsets[j]) - 1].isalnum()
                elements.append(TagElement(part.source, parts[j].source, first, end, is_mark, parent))
                around.append((j, elements[-1]))
                continue
            done = j
            left = _touches(_neighbour(parts, i, -1, around_words).source[-1])
            following = _neighbour(parts, j, 1, around_words)
            right = _touches(following.source[0])
            mark = right and following.kind == "text" and not following.source[0].isalnum()
            follows = left and (mark or not right) and part.name not in BLOCK_NAMES
            start, end = words[first] if first < len(words) else (offsets[i], offsets[i])
            inside = follows and start < offsets[i] < end and plain[offsets[i] - 1].isalnum()
            source = "".join(part.source for part in parts[i : j + 1])
            standalone.append(StandaloneTag(source, first + inside, left, right, parent, mark, follows, inside))
        text = "".join(token.source for token in tokens)
        return cls(text, plain, tuple(elements), tuple(standalone), is_html)

    @property
    def has_markup(self) -> bool:
        return bool(self.elements or self.standalone)

    @classmethod
    def untagged(cls, text: str) -> "TaggedText":
        """A text taken as it is: anything in it that looks like markup counts as words."""
        return cls(text, text)

    def restore(
        self, words: Sequence[str], source_words: Sequence[int], touching: Collection[int] = frozenset()
    ) -> str:
        """Put the markup around other words; words[j] corresponds to word source_words[j] of the plain text.

        Each word gets the elements around its source word, so elements stay well nested but may be split into several.
        An element none of whose words has a counterpart is written empty rather than dropped. `touching` are the words
        that follow another one without a space.
        """
        covering = self._covering()
        elements_around = [
            _around_mark(covering.get(source, []), source)
            if j in touching and not any(map(str.isalnum, word))
            else covering.get(source, [])
            for j, (word, source) in enumerate(zip(words, source_words, strict=True))
        ]
        points = _InsertionPoints(source_words, len(unit_spans(self.plain)))
        standalone_before: dict[int, list[StandaloneTag]] = {}
        for tag in (*self.standalone, *self._emptied(elements_around)):
            standalone_before.setdefault(points.find(tag.n_before, tag.follows_word), []).append(tag)
        writer = _TagWriter(_escape if self.is_html else str)
        for j, (word, elements) in enumerate(zip([*words, None], [*elements_around, []], strict=True)):
            is_touching = j in touching if word is not None else bool(touching)
            writer.move_to(elements, standalone_before.get(j, []), is_touching)
            if word is not None:
                writer.write_word(word)
        return writer.text

    def _covering(self) -> dict[int, list[TagElement]]:
        """Return the elements around each word that has any, outer ones before inner ones."""
        covering: dict[int, list[TagElement]] = {}
        for element in self.elements:
            for n in range(element.first, element.end):
                covering.setdefault(n, []).append(element)
        return covering

    def _emptied(self, elements_around: Sequence[Sequence[TagElement]]) -> list[StandaloneTag]:
        """Elements none of whose words has a counterpart, as empty elements inside their innermost remaining parent."""
        remaining = {id(element) for elements in elements_around for element in elements}
        emptied = []
        for element in self.elements:
            if id(element) not in remaining:
                parent = element.parent
                while parent is not None and id(parent) not in remaining:
                    parent = parent.parent
                emptied.append(StandaloneTag(element.opening + element.closing, element.first, False, False, parent))
        return emptied


class _InsertionPoints:
    """Where markup goes in a translation whose word j corresponds to word source_words[j] of `n_source`."""

    def __init__(self, source_words: Sequence[int], n_source: int) -> None:
        self.n_source, self.n_words = n_source, len(source_words)
        self.first_of = {source: j for j, source in reversed(list(enumerate(source_words)))}
        self.last_of = {source: j for j, source in enumerate(source_words)}
        firsts = (self.first_of.get(source, self.n_words) for source in reversed(range(n_source)))
        self.first_from = list(accumulate(firsts, min))[::-1]
        """For each source word, the first word that corresponds to it or to a later one"""

    def find(self, n_before: int, follows_word: bool) -> int:
        """Return the index of the word before which markup goes that had `n_before` source words before it.

        Before the counterpart of the next source word; else after the counterpart of the previous one; else before the
        first counterpart of a later one. If it belongs to the word before it, then after that one's in any case.
        """
        if follows_word and n_before - 1 in self.last_of:
            return self.last_of[n_before - 1] + 1
        if n_before == 0 or n_before >= self.n_source:
            return 0 if n_before == 0 else self.n_words
        if n_before in self.first_of:
            return self.first_of[n_before]
        return self.last_of[n_before - 1] + 1 if n_before - 1 in self.last_of else self.first_from[n_before]


class _TagWriter:
    """Writes words with their elements: closes what ends, writes standalone tags, opens what begins."""

    def __init__(self, escape: Callable[[str], str]) -> None:
        self.escape = escape
        self.text = ""
        self.open_elements: Sequence[TagElement] = ()
        self.punctuation = ""  # of the last word; not written yet, as it may go inside or outside a closing element
        self.needs_space = False
        self.needs_mark = False  # whether there is no space if the next word is a punctuation mark, otherwise one
        self.is_touching = False  # whether the next word follows without a space

    def move_to(self, elements: Sequence[TagElement], standalone: Sequence[StandaloneTag], is_touching: bool) -> None:
        """Go from the last word to the next one, which is inside `elements`; `standalone` is between the two.

        `is_touching`: there is no space between them.
        """
        self.is_touching = is_touching
        self.needs_space = self.needs_space and not is_touching
        n_common = sum(1 for _ in _common_prefix(self.open_elements, elements))
        closing, opening = self.open_elements[n_common:], elements[n_common:]
        for element in reversed(closing):
            inside = [tag for tag in standalone if tag.parent is element]
            self._write_with_punctuation(inside, writes=element.includes_punctuation or bool(inside))
            self.text += element.closing
        changed = [*closing, *opening]
        self._write_with_punctuation(
            [tag for tag in standalone if not any(tag.parent is element for element in changed)]
        )
        for element in opening:
            self.text += self._gap() + element.opening
            self.needs_space = self.needs_mark = False
            if not any(element is other for other in self.open_elements):
                self._write_standalone([tag for tag in standalone if tag.parent is element])
        self.open_elements = elements

    def write_word(self, word: str) -> None:
        core, punctuation = _WORD_AND_PUNCTUATION.fullmatch(word).groups()  # type: ignore[union-attr]
        core, self.punctuation = (core, punctuation) if core else (punctuation, "")
        self.text += self._gap(is_mark=not core[:1].isalnum()) + self.escape(core)
        self.needs_space, self.needs_mark = True, False

    def _write_standalone(self, tags: Sequence[StandaloneTag]) -> None:
        for tag in tags:
            self.text += (self._gap() if self.needs_mark or not tag.touches_left else "") + tag.text
            self.needs_space = not tag.touches_right and not self.is_touching
            self.needs_mark = tag.touches_mark and not self.is_touching

    def _write_with_punctuation(self, tags: Sequence[StandaloneTag], writes: bool = True) -> None:
        """Write the punctuation of the last word, and tags before and after it."""
        self.text += "".join(tag.text for tag in tags if tag.precedes_punctuation)
        if writes:
            self._write_punctuation()
        self._write_standalone([tag for tag in tags if not tag.precedes_punctuation])

    def _gap(self, is_mark: bool = False) -> str:
        """Return the space before what is written next."""
        return " " if self.needs_space or (self.needs_mark and not is_mark) else ""

    def _write_punctuation(self) -> None:
        self.text, self.punctuation = self.text + self.escape(self.punctuation), ""


def _without_placeholders(token: HtmlToken, is_html: bool) -> Iterator[HtmlToken]:
    """Yield a token; of a text, its placeholders and what is between them, with &amp; and the like replaced."""
    if token.kind != "text":
        yield token
        return
    end = 0
    for placeholder in (*_PLACEHOLDER.finditer(token.source), None):
        text = token.source[end : placeholder.start() if placeholder else None]
        if text:
            yield HtmlToken("text", _SPACE.sub(" ", html.unescape(text)) if is_html else text)
        if placeholder:
            yield HtmlToken("other", placeholder[0])
            end = placeholder.end()


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def _plain_text(parts: Sequence[HtmlToken]) -> tuple[str, list[int]]:
    """Return the text without its tags, and the offset of each part in it. Block elements get lines of their own."""
    plain, offsets = "", []
    for part in parts:
        if part.kind == "text":
            offsets.append(len(plain))
            plain += part.source
            continue
        is_block = part.name in BLOCK_NAMES and plain != ""
        if is_block and plain[-1] == " ":
            plain = plain[:-1] + "\n"
        separates = is_block and not plain[-1].isspace()
        offsets.append(len(plain) + (separates and part.kind != "close"))
        plain += "\n" if separates else ""  # what a block contains is a sentence of its own
    return plain, offsets


def _around_mark(elements: Sequence[TagElement], source: int) -> list[TagElement]:
    """Return those elements that are also around a punctuation mark which is a word by itself.

    Those that end before the punctuation of the source word are not.
    """
    return [e for e in elements if e.includes_punctuation or source < e.end - 1]


def _neighbour(parts: Sequence[HtmlToken], i: int, step: int, skipped: Collection[int]) -> HtmlToken:
    """Return the part before part i (step −1) or after it (step 1) that is not skipped; a space if there is none."""
    i += step
    while i in skipped:
        i += step
    return parts[i] if 0 <= i < len(parts) else HtmlToken("text", " ")


def _touches(neighbour: str) -> bool:
    """Whether a tag touches the character next to it; a script without spaces leaves no choice."""
    return not neighbour.isspace() and not has_spaceless_script(neighbour)


def _common_prefix(left: Sequence[TagElement], right: Sequence[TagElement]) -> Iterator[TagElement]:
    for one, other in zip(left, right, strict=False):
        if one is not other:
            return
        yield one
