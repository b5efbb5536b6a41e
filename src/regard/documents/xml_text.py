"""Text files and XML: decoded, checked, and split into tags and text."""

import codecs
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from xml.parsers import expat

from regard.documents.errors import DocumentError
from regard.documents.limits import DocumentLimits

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)|<meta[^>]*?charset\s*=\s*["']?([\w.:-]+)""", re.I)
_KNOWN = re.compile(r"utf-8|ascii|iso8859-\d+|cp\d+|koi8-[ru]|shift_jis|euc_(jp|kr)|gb(2312|k|18030)|big5")
_HEAD = 2_048  # bytes in which an encoding is declared
_TAG = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<![^>]*>|</?(?P<name>[^\s/>]+)(?:"[^"]*"|'[^']*'|[^>"'])*+>""",
    re.DOTALL,
)
"""In well-formed XML"""
_ATTRIBUTE = re.compile(r"""([^\s=>/"']+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""")


def decode_text(content: bytes) -> tuple[str, str]:
    """Return a text and its encoding: UTF-8 or, with a byte order mark, UTF-16."""
    encoding = next((name for mark, name in _BOMS.items() if content.startswith(mark)), "utf-8")
    return _decode(content, encoding), encoding


def decode_markup(content: bytes) -> tuple[str, str]:
    """Return XML or HTML as text, and its encoding: by its byte order mark, as declared, or UTF-8."""
    declared = _DECLARED.search(content[:_HEAD])
    if declared is None or any(content.startswith(mark) for mark in _BOMS):
        return decode_text(content)
    try:
        encoding = codecs.lookup((declared[1] or declared[2]).decode("ascii")).name
    except LookupError:
        encoding = ""
    if not _KNOWN.fullmatch(encoding):
        raise DocumentError("declares an encoding that is not known; convert it to UTF-8")
    return _decode(content, encoding), encoding


def _decode(content: bytes, encoding: str) -> str:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise DocumentError(f"is not valid {encoding.removesuffix('-sig').upper()}; convert it to UTF-8") from None
    if "\0" in text:
        raise DocumentError("is not a text file: it contains a NUL character")
    return text


def check_xml(text: str, limits: DocumentLimits) -> None:
    """Refuse XML that is not well-formed, declares entities or is nested too deeply. Nothing is fetched."""
    depth = 0

    def open_element(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > limits.depth:
            raise DocumentError(f"has XML elements nested more than {limits.depth} deep")

    def close_element(*_: object) -> None:
        nonlocal depth
        depth -= 1

    def refuse_entity(*_: object) -> None:
        raise DocumentError("declares XML entities, which is not safe")

    parser = expat.ParserCreate("utf-8")
    parser.UseForeignDTD(True)  # so that &nbsp; and the like are no errors
    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    parser.EntityDeclHandler = refuse_entity
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise DocumentError(f"has XML that is not well-formed ({expat.ErrorString(error.code)})") from None


class XmlTokenKind(Enum):
    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    EMPTY = auto()
    OTHER = auto()
    """A comment, declaration, instruction or CDATA section"""


@dataclass(frozen=True, slots=True)
class XmlToken:
    """A tag or the text between two tags."""

    kind: XmlTokenKind
    start: int
    end: int
    name: str = ""


def tokenize(text: str, prefixes: Mapping[str, str] | None = None) -> Iterator[XmlToken]:
    """Split well-formed XML into tags and text. `prefixes` are those of names, and what to write instead."""
    at = 0
    for tag in _TAG.finditer(text):
        if tag.start() > at:
            yield XmlToken(XmlTokenKind.TEXT, at, tag.start())
        yield _tag_token(text, tag, prefixes or {})
        at = tag.end()
    if at < len(text):
        yield XmlToken(XmlTokenKind.TEXT, at, len(text))


def _tag_token(text: str, tag: re.Match[str], prefixes: Mapping[str, str]) -> XmlToken:
    start, end = tag.span()
    if (name := tag["name"]) is None:
        return XmlToken(XmlTokenKind.OTHER, start, end)
    prefix, _, local = name.rpartition(":")
    if prefix in prefixes:
        name = prefixes[prefix] + local
    if text.startswith("</", start):
        return XmlToken(XmlTokenKind.CLOSE, start, end, name)
    return XmlToken(XmlTokenKind.EMPTY if text.endswith("/>", start, end) else XmlTokenKind.OPEN, start, end, name)


def attributes(text: str, token: XmlToken) -> dict[str, tuple[int, int]]:
    """Return the attributes of a tag: by name, the start and end of the value."""
    found: dict[str, tuple[int, int]] = {}
    for match in _ATTRIBUTE.finditer(text, token.start, token.end):
        group = next(n for n in (2, 3, 4) if match[n] is not None)
        found.setdefault(match[1], match.span(group))
    return found


def attribute_values(text: str, token: XmlToken) -> dict[str, str]:
    """Return the attributes of a tag as they are written."""
    return {name: text[start:end] for name, (start, end) in attributes(text, token).items()}


def namespace_prefixes(text: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the prefixes that the root element declares for these namespaces, each with what `names` calls them."""
    root = next(token for token in tokenize(text) if token.name)
    declared = {
        name.removeprefix("xmlns").removeprefix(":"): uri
        for name, uri in attribute_values(text, root).items()
        if name.startswith("xmlns")
    }
    return {prefix: names[uri] for prefix, uri in declared.items() if uri in names}


def matching_tags(tokens: Sequence[XmlToken]) -> dict[int, int]:
    """Return the index of each opening tag's closing tag."""
    unclosed, closing = list[int](), {}
    for i, token in enumerate(tokens):
        if token.kind is XmlTokenKind.OPEN:
            unclosed.append(i)
        elif token.kind is XmlTokenKind.CLOSE:
            closing[unclosed.pop()] = i
    return closing


def read_xml(content: bytes, limits: DocumentLimits) -> tuple[str, str]:
    """Return XML as text, and its encoding; refuse what `check_xml` refuses."""
    text, encoding = decode_markup(content)
    check_xml(text, limits)
    return text, encoding


def escape(text: str) -> str:
    """Return text as XML."""
    return html.escape(text, quote=False)
