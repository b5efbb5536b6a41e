"""HTML as a sequence of tokens: text, tags, comments. Takes time in proportion to the length, also of broken HTML."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


VOID_NAMES = _names("area base br col embed hr img input link meta param source track wbr")
"""Elements that have no closing tag"""
BLOCK_NAMES = _names(
    "address article aside audio blockquote body br button caption center col colgroup dd details dialog dir div "
    "dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html "
    "iframe label legend li link main menu meta nav noframes noscript ol optgroup option p pre search section "
    "select summary table tbody td textarea tfoot th thead title tr ul video"
)
"""Elements whose text is not part of a sentence before or after them"""
_RAW_NAMES = _names("script style textarea xmp iframe noembed noframes")
"""Elements whose content is not HTML"""
_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_NEXT_MARK = re.compile(r"[\"'<>]")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'<>]++))?""")

TokenKind = Literal["text", "open", "close", "empty", "other"]


class HtmlToken(NamedTuple):
    """A piece of HTML. All pieces together are the HTML."""

    kind: TokenKind
    """open and close: a tag; empty: an element without a closing tag; other: a comment, a script, a declaration …"""
    source: str
    name: str = ""
    """Of the element, in lower case"""

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of a tag, with their names in lower case"""
        tag = self.source[len(self.name) + 1 :]
        return {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(tag)}


def html_tokens(source: str) -> Iterator[HtmlToken]:
    """Yield the tokens of HTML. What looks like a tag but has no end is text, as is "<" before anything but a name."""
    position = 0
    while position < len(source):
        start = source.find("<", position)
        start = len(source) if start < 0 else start
        if start > position:
            yield HtmlToken("text", source[position:start])
        if start == len(source):
            return
        token = _markup_at(source, start)
        if token.kind == "open" and token.name in _RAW_NAMES:
            token = _raw_element(source, start, token)
        yield token
        position = start + len(token.source)


def _markup_at(source: str, start: int) -> HtmlToken:
    """Return the token that begins with the "<" at `start`."""
    for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>")):
        if source.startswith(opening, start):
            end = source.find(closing, start + len(opening))
            return HtmlToken("other", source[start : end + len(closing)] if end >= 0 else source[start:])
    if source[start + 1 : start + 2] in ("!", "?") and (end := source.find(">", start)) >= 0:
        return HtmlToken("other", source[start : end + 1])
    name = _NAME.match(source, start)
    if name is None:
        return HtmlToken("text", "<")
    end, is_tag = _tag_end(source, name.end())
    tag, element = source[start:end], name[1].lower()
    if not is_tag:
        return HtmlToken("text", tag)
    if tag.startswith("</"):
        return HtmlToken("close", tag, element)
    return HtmlToken("empty" if tag.endswith("/>") or element in VOID_NAMES else "open", tag, element)


def _raw_element(source: str, start: int, opening: HtmlToken) -> HtmlToken:
    """Return an element at `start` whose content is not HTML as one token, so that no word gets into it."""
    content = start + len(opening.source)
    closing = re.compile(rf"</{re.escape(opening.name)}(?=[\s/>])", re.IGNORECASE).search(source, content)
    end, _ = _tag_end(source, closing.end()) if closing else (len(source), False)
    return HtmlToken("other", source[start:end], opening.name)


def _tag_end(source: str, position: int) -> tuple[int, bool]:
    """Return where a tag ends, or where it turns out that it is none; and whether it is one."""
    while (mark := _NEXT_MARK.search(source, position)) is not None:
        if mark[0] in "<>":
            return mark.start() + (mark[0] == ">"), mark[0] == ">"
        closing_quote = source.find(mark[0], mark.end())
        if closing_quote < 0:
            return mark.end(), False
        position = closing_quote + 1
    return len(source), False


def match_tags(tokens: Sequence[HtmlToken]) -> dict[int, int]:
    """Return index of opening tag → index of its closing tag, well nested; tags without a match are left out."""
    opened: list[tuple[int, str]] = []
    n_opened: dict[str, int] = {}
    closing_of = {}
    for i, token in enumerate(tokens):
        if token.kind == "open":
            opened.append((i, token.name))
            n_opened[token.name] = n_opened.get(token.name, 0) + 1
        elif token.kind == "close" and n_opened.get(token.name):
            while True:  # tags opened inside and never closed have no match
                index, name = opened.pop()
                n_opened[name] -= 1
                if name == token.name:
                    break
            closing_of[index] = i
    return closing_of
