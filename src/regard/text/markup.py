"""Tags and placeholders: take them out of a text, and put them into its translation around the corresponding words."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from regard.text.units import has_spaceless_script, unit_spans

_TAG = r"""</?[A-Za-z](?:"[^"]*"|'[^']*'|[^<>"'])*>|<!--.*?-->"""
_PLACEHOLDER = r"\{\{[^{}]*\}\}|\$?\{[^{}\s]*\}|%\([A-Za-z_]\w*\)[sdif]|%\d+\$[sd]|%[sd]\b"
_MARKUP = re.compile(f"{_TAG}|{_PLACEHOLDER}")
_TAG_NAME = re.compile(r"</?([A-Za-z][\w:-]*)")
_WORD_AND_PUNCTUATION = re.compile(r"(.*?)([^\w\s]*)", re.DOTALL)
# Tags that separate the words before and after them even without a space.
_BLOCK = re.compile(
    r"</?(address|article|aside|blockquote|br|caption|d[dlt]|div|fig\w+|footer|h[1-6r]|header|li|main|nav|[ou]l|option|p|pre|section"
    r"|t(able|body|d|foot|h|head|r))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TagElement:
    """An element that contains words: opening tag, words first … end − 1, closing tag."""

    opening: str
    closing: str
    first: int
    end: int
    includes_punctuation: bool
    """Whether the punctuation after its last word is inside the element."""


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


@dataclass(frozen=True)
class TaggedText:
    """A text split into plain text and markup."""

    text: str
    plain: str
    elements: tuple[TagElement, ...] = ()
    """Outer elements before inner ones."""
    standalone: tuple[StandaloneTag, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "TaggedText":
        """Find tags and placeholders in a text and take them out."""
        tags = list(_MARKUP.finditer(text))
        plain, offsets = _remove(text, tags)
        words = unit_spans(plain)
        closing_of = _match_tags([tag.group() for tag in tags])
        handled = set(closing_of.values())
        elements: list[tuple[int, int, TagElement]] = []
        standalone: list[StandaloneTag] = []
        for i, tag in enumerate(tags):
            if i in handled:
                continue
            j = closing_of.get(i, i)
            inside = [n for n, (start, end) in enumerate(words) if i < j and start < offsets[j] and end > offsets[i]]
            if inside:
                last_character = plain[: offsets[j]].rstrip()[-1:]
                element = TagElement(
                    tag.group(), tags[j].group(), inside[0], inside[-1] + 1, not last_character.isalnum()
                )
                elements.append((i, j, element))
                continue
            handled |= set(range(i, j + 1))  # markup inside an element without words stays with it
            start, end = tag.start(), tags[j].end()
            n_before = sum(word_end <= offsets[i] for _, word_end in words)
            left, right = _touches(text[max(0, start - 1) : start]), _touches(text[end : end + 1])
            parents = [element for first, last, element in elements if first < i and j < last]
            standalone.append(StandaloneTag(text[start:end], n_before, left, right, parents[-1] if parents else None))
        return cls(text, plain, tuple(element for *_, element in elements), tuple(standalone))

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
        elements_around = [
            self._elements_around(source, is_mark=j in touching and not any(map(str.isalnum, word)))
            for j, (word, source) in enumerate(zip(words, source_words, strict=True))
        ]
        standalone_before: dict[int, list[StandaloneTag]] = {}
        for tag in (*self.standalone, *self._emptied(elements_around)):
            standalone_before.setdefault(self._insertion_point(tag.n_before, source_words), []).append(tag)
        writer = _TagWriter()
        for j, (word, elements) in enumerate(zip([*words, None], [*elements_around, []], strict=True)):
            is_touching = j in touching if word is not None else bool(touching)
            writer.move_to(elements, standalone_before.get(j, []), is_touching)
            if word is not None:
                writer.write_word(word)
        return writer.text

    def _elements_around(self, source: int, is_mark: bool) -> list[TagElement]:
        """Return the elements around a source word.

        A punctuation mark that is a word by itself is outside of those that end before the source word's punctuation.
        """
        around = [e for e in self.elements if e.first <= source < e.end]
        return [e for e in around if not is_mark or e.includes_punctuation or source < e.end - 1]

    def _emptied(self, elements_around: Sequence[Sequence[TagElement]]) -> list[StandaloneTag]:
        """Elements none of whose words has a counterpart, as empty elements inside their innermost remaining parent."""

        def remains(element: TagElement) -> bool:
            return any(element in elements for elements in elements_around)

        emptied = []
        for n, element in enumerate(self.elements):
            if not remains(element):
                outer = [e for e in self.elements[:n] if e.first <= element.first and element.end <= e.end]
                parent = next((e for e in reversed(outer) if remains(e)), None)
                emptied.append(StandaloneTag(element.opening + element.closing, element.first, False, False, parent))
        return emptied

    def _insertion_point(self, n_before: int, source_words: Sequence[int]) -> int:
        """Return the index of the target word before which markup goes that had `n_before` source words before it.

        Before the counterpart of the next source word; else after the counterpart of the previous one; else before the
        first counterpart of a later one.
        """
        if n_before == 0 or n_before >= len(unit_spans(self.plain)):
            return 0 if n_before == 0 else len(source_words)
        of_next = [j for j, source in enumerate(source_words) if source == n_before]
        after_previous = [j + 1 for j, source in enumerate(source_words) if source == n_before - 1]
        of_later = [j for j, source in enumerate(source_words) if source > n_before]
        if of_next:
            return min(of_next)
        return max(after_previous) if after_previous else min(of_later, default=len(source_words))


class _TagWriter:
    """Writes words with their elements: closes what ends, writes standalone tags, opens what begins."""

    def __init__(self) -> None:
        self.text = ""
        self.open_elements: Sequence[TagElement] = ()
        self.punctuation = ""  # of the last word; not written yet, as it may go inside or outside a closing element
        self.needs_space = False
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
            if element.includes_punctuation or inside:
                self._write_punctuation()
            self._write_standalone(inside)
            self.text += element.closing
        self._write_punctuation()
        changed = [*closing, *opening]
        self._write_standalone([tag for tag in standalone if not any(tag.parent is element for element in changed)])
        for element in opening:
            self.text += (" " if self.needs_space else "") + element.opening
            self.needs_space = False
            if not any(element is other for other in self.open_elements):
                self._write_standalone([tag for tag in standalone if tag.parent is element])
        self.open_elements = elements

    def write_word(self, word: str) -> None:
        core, punctuation = _WORD_AND_PUNCTUATION.fullmatch(word).groups()  # type: ignore[union-attr]
        core, self.punctuation = (core, punctuation) if core else (punctuation, "")
        self.text += (" " if self.needs_space else "") + core
        self.needs_space = True

    def _write_standalone(self, tags: Sequence[StandaloneTag]) -> None:
        for tag in tags:
            self.text += (" " if self.needs_space and not tag.touches_left else "") + tag.text
            self.needs_space = not tag.touches_right and not self.is_touching

    def _write_punctuation(self) -> None:
        self.text, self.punctuation = self.text + self.punctuation, ""


def _remove(text: str, tags: Sequence[re.Match[str]]) -> tuple[str, list[int]]:
    """Return the text without its tags, and the offset of each tag in it."""
    plain, offsets, end = "", [], 0
    for tag in tags:
        plain += text[end : tag.start()]
        end = tag.end()
        is_block = _BLOCK.match(tag.group()) is not None and plain != ""
        if is_block and plain[-1] == " ":
            plain = plain[:-1] + "\n"
        separates = is_block and not plain[-1].isspace()
        is_opening = not tag.group().startswith("</")
        offsets.append(len(plain) + (separates and is_opening))
        plain += "\n" if separates else ""  # what a block contains is a sentence of its own
    return plain + text[end:], offsets


def _touches(neighbour: str) -> bool:
    """Whether a tag touches the character next to it; a script without spaces leaves no choice."""
    return bool(neighbour) and not neighbour.isspace() and not has_spaceless_script(neighbour)


def _common_prefix(left: Sequence[TagElement], right: Sequence[TagElement]) -> Iterator[TagElement]:
    for one, other in zip(left, right, strict=False):
        if one is not other:
            return
        yield one


def _match_tags(tags: Sequence[str]) -> dict[int, int]:
    """Return index of opening tag → index of its closing tag; tags without a match are left out."""
    unclosed: list[tuple[int, str]] = []
    closing_of = {}
    for i, tag in enumerate(tags):
        name = _TAG_NAME.match(tag)
        if name is None or tag.endswith("/>"):
            continue
        if not tag.startswith("</"):
            unclosed.append((i, name[1].lower()))
        elif (last := next((u for u in reversed(unclosed) if u[1] == name[1].lower()), None)) is not None:
            closing_of[last[0]] = i
            del unclosed[unclosed.index(last) :]  # tags opened inside and never closed have no match
    return closing_of
