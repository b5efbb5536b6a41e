"""HTML as texts to translate, and the markup between them that stays as it is."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.html_tokens import BLOCK_NAMES, HtmlToken, html_tokens, match_tags
from regard.text.markup import TaggedText

_KEPT_NAMES = frozenset(("applet", "canvas", "code", "embed", "kbd", "math", "object", "pre", "samp", "svg", "var"))
"""Elements whose content is not translated"""
_MARK_NAMES = frozenset(("a", "sub", "sup"))
_MARK_TOKENS = 8  # of the mark of a note at most
_MAX_DEPTH = 32  # of elements inside a sentence; browsers stop at 512
_SPACE = re.compile(r"(?:\s|&nbsp;|&#160;|&#xa0;)++", re.IGNORECASE)
_IndexedToken = tuple[int, HtmlToken]


@dataclass(frozen=True)
class HtmlDocument:
    """The translatable texts of HTML with the inline markup in them, and what is between them.

    A text ends where a block begins or ends (a paragraph, list item, line break …). Scripts, comments, attributes, code
    and everything marked with translate="no" or class="notranslate" stay as they are.

    >>> document = HtmlDocument.parse("<ul><li>a <b>cat</b></li><li>dogs &amp; cats</li></ul>")
    >>> [text.plain for text in document.texts]
    ['a cat', 'dogs & cats']
    >>> document.join(["un <b>chat</b>", "chiens &amp; chats"])
    '<ul><li>un <b>chat</b></li><li>chiens &amp; chats</li></ul>'
    """

    texts: tuple[TaggedText, ...]
    """`TaggedText.restore` returns them as HTML"""
    between: tuple[str, ...]
    """HTML before each text, and after the last"""

    @classmethod
    def parse(cls, source: str) -> "HtmlDocument":
        """Divide HTML into texts and what is between them; broken HTML too."""
        tokens = list(html_tokens(source))
        reader = _HtmlReader(tokens, match_tags(tokens))
        i = 0
        while i < len(tokens):
            end = reader.end_of_kept(i)
            reader.add(i, end)
            i = end
        reader.end_text()
        return cls(tuple(reader.texts), tuple(reader.between))

    def join(self, translations: Sequence[str]) -> str:
        """Return the HTML with other texts, which are HTML too."""
        pairs = zip(self.between, [*translations, ""], strict=True)
        return "".join(part for pair in pairs for part in pair)


class _HtmlReader:
    """Collects tokens into texts."""

    def __init__(self, tokens: Sequence[HtmlToken], closing_of: dict[int, int]) -> None:
        self.tokens = tokens
        self.closing_of = closing_of
        self.opening_of = {closing: opening for opening, closing in closing_of.items()}
        self.depth = 0
        self.texts: list[TaggedText] = []
        self.between = [""]
        self.pending: list[_IndexedToken] = []
        """The tokens of the present text, with their indices"""

    def end_of_kept(self, i: int) -> int:
        """Return where the part ends that begins with token i and stays together: i + 1 unless it is not translated."""
        token = self.tokens[i]
        if token.kind != "open" or not (_is_kept(token) or self._is_note_mark(i)):
            return i + 1
        if i in self.closing_of:
            return self.closing_of[i] + 1
        if token.name not in BLOCK_NAMES:
            return i + 1
        blocks = (j for j in range(i + 1, len(self.tokens)) if self.tokens[j].name in BLOCK_NAMES)
        return next(blocks, len(self.tokens))  # a paragraph, for example, need not be closed

    def _is_note_mark(self, i: int) -> bool:
        """Whether token i opens the mark of a note, such as <sup>1</sup>, which is no part of the word before it."""
        inside = self.tokens[i : min(self.closing_of.get(i, i), i + _MARK_TOKENS)]
        is_closed = i + len(inside) == self.closing_of.get(i)
        return self.tokens[i].name in _MARK_NAMES and is_closed and not _has_letter(_text(inside))

    def add(self, i: int, end: int) -> None:
        """Add a token, or several that are not translated."""
        token = self.tokens[i]
        is_block = token.name in BLOCK_NAMES
        if end > i + 1:
            source = "".join(token.source for token in self.tokens[i:end])
            self._add(i, HtmlToken("other", source), is_block)
            return
        self.depth += i in self.closing_of and not is_block
        is_deep = token.kind in ("open", "close") and self.depth > _MAX_DEPTH
        self.depth -= i in self.opening_of and not is_block
        self._add(i, token, is_block or is_deep)

    def _add(self, i: int, token: HtmlToken, ends_text: bool) -> None:
        if ends_text:
            self.end_text()
            self.between[-1] += token.source
        else:
            self.pending.append((i, token))

    def end_text(self) -> None:
        """End the present text. Markup and white space around its words, and a text without a letter, stay outside."""
        pending, self.pending = self.pending, []
        texts = [n for n, (_, token) in enumerate(pending) if token.kind == "text" and token.source.strip()]
        if not any(_has_letter(pending[n][1].source) for n in texts):
            self.between[-1] += _sources(pending)
            return
        start, end = self._inner_part(pending, texts[0], texts[-1])
        inside = pending[start:end]
        closings, openings = self._spanning(inside)
        leading, trailing = _outer_space(inside)
        reopened = [self.tokens[self.opening_of[closing]] for closing, _ in reversed(closings)]
        closed = [self.tokens[self.closing_of[opening]] for opening, _ in reversed(openings)]
        tokens = [*reopened, *_without(inside, leading, trailing), *closed]
        self.between[-1] += _sources(pending[:start]) + leading + _sources(closings)
        self.texts.append(TaggedText.of_tokens(tokens, is_html=True))
        self.between.append(_sources(openings) + trailing + _sources(pending[end:]))

    def _inner_part(self, pending: Sequence[_IndexedToken], first: int, last: int) -> tuple[int, int]:
        """Return start and end of the tokens between the words of `first` and `last`, and tags that belong to them."""
        core = range(pending[first][0], pending[last][0] + 1)
        start = next((n for n in range(first) if self.closing_of.get(pending[n][0]) in core), first)
        behind = reversed(range(last + 1, len(pending)))
        return start, next((n for n in behind if self.opening_of.get(pending[n][0]) in core), last) + 1

    def _spanning(self, inside: Sequence[_IndexedToken]) -> tuple[list[_IndexedToken], list[_IndexedToken]]:
        """Return the closing tags of elements that begin before these tokens, and opening tags of those that end after.

        Such an element is closed before the text and opened again in it, or closed in it and opened again after it.
        """
        indices = range(inside[0][0], inside[-1][0] + 1)
        closings = [pair for pair in inside if self.opening_of.get(pair[0], indices[0]) not in indices]
        openings = [pair for pair in inside if self.closing_of.get(pair[0], indices[0]) not in indices]
        return closings, openings


def _text(tokens: Sequence[HtmlToken]) -> str:
    return "".join(token.source for token in tokens if token.kind == "text")


def _sources(tokens: Sequence[_IndexedToken]) -> str:
    return "".join(token.source for _, token in tokens)


def _outer_space(tokens: Sequence[_IndexedToken]) -> tuple[str, str]:
    """Return the white space at the beginning and at the end of a text."""
    first, last = tokens[0][1], tokens[-1][1]
    leading = _SPACE.match(first.source) if first.kind == "text" else None
    runs = list(_SPACE.finditer(last.source)) if last.kind == "text" else []
    return leading[0] if leading else "", runs[-1][0] if runs and runs[-1].end() == len(last.source) else ""


def _without(tokens: Sequence[_IndexedToken], leading: str, trailing: str) -> list[HtmlToken]:
    """Return the tokens of a text without the white space at its beginning and at its end."""
    inner = [token for _, token in tokens]
    inner[0] = inner[0]._replace(source=inner[0].source.removeprefix(leading))
    inner[-1] = inner[-1]._replace(source=inner[-1].source.removesuffix(trailing))
    return inner


def _has_letter(source: str) -> bool:
    """Whether HTML without tags has a letter; that of "&nbsp;" is none."""
    return any(map(str.isalpha, html.unescape(source)))


def _is_kept(token: HtmlToken) -> bool:
    """Whether the content of an element is not translated."""
    if token.name in _KEPT_NAMES:
        return True
    attributes = token.attributes if "translate" in token.source.lower() else {}
    return attributes.get("translate", "").lower() == "no" or "notranslate" in attributes.get("class", "").split()
