"""EPUB books: the chapters, the table of contents and the language of the book."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

from regard.documents.archive import Archive
from regard.documents.document import Document, EncodedPart, PackageDocument
from regard.documents.errors import DocumentError
from regard.documents.html_file import HtmlFile
from regard.documents.limits import DocumentLimits
from regard.documents.part import Edit, Part, Raw
from regard.documents.xml_text import XmlToken, XmlTokenKind, attribute_values, attributes, read_xml, tokenize
from regard.text.html_tokens import HtmlToken
from regard.text.markup import TaggedText

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_CHAPTER = "application/xhtml+xml"
_CONTENTS = "application/x-dtbncx+xml"


@dataclass(frozen=True)
class TitleBlock:
    """A line of a table of contents."""

    start: int
    end: int
    segments: tuple[TaggedText, ...]

    def render(self, translations: Sequence[str], raw: Raw) -> str:
        return translations[0]


def read_epub(content: bytes, language: str, limits: DocumentLimits) -> PackageDocument:
    archive = Archive.read(content, limits)
    container, _ = read_xml(archive.file(_CONTAINER), limits)
    package = next((root["full-path"] for root in _elements(container, "rootfile") if "full-path" in root), "")
    if package not in archive.files:
        raise DocumentError("is a damaged EPUB: its container names no file of the book")
    text, encoding = read_xml(archive.file(package), limits)
    parts: dict[str, Document] = {package: EncodedPart(_package_part(text, language), encoding)}
    encrypted = _encrypted_files(archive, limits)
    for item in _elements(text, "item"):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", ""))))
        kind = item.get("media-type")
        if kind not in (_CHAPTER, _CONTENTS) or name not in archive.files:
            continue
        if name in encrypted:
            raise DocumentError("is encrypted")
        source = read_xml(archive.file(name), limits)
        parts[name] = HtmlFile.of(*source, language) if kind == _CHAPTER else _contents_part(*source, language)
    if len(parts) == 1:
        raise DocumentError("is an EPUB without chapters")
    return PackageDocument(archive, parts)


def _encrypted_files(archive: Archive, limits: DocumentLimits) -> set[str]:
    """Return the names of encrypted files; often they are fonts only."""
    if _ENCRYPTION not in archive.files:
        return set()
    text, _ = read_xml(archive.file(_ENCRYPTION), limits)
    return {unquote(reference.get("URI", "")) for reference in _elements(text, "CipherReference")}


def _contents_part(text: str, encoding: str, language: str) -> EncodedPart:
    """Return the table of contents of EPUB 2, whose lines are in elements named `text`."""
    tokens = list(tokenize(text))
    root = next(token for token in tokens if token.name)
    edits = [Edit(*span, language) for name, span in attributes(text, root).items() if name == "xml:lang"]
    titles = (
        TitleBlock(start, end, (TaggedText.of_tokens([HtmlToken("text", text[start:end])], is_html=True),))
        for start, end in _contents_of(tokens, "text")
    )
    return EncodedPart(Part(text, [*edits, *titles]), encoding)


def _package_part(text: str, language: str) -> Part:
    """Return the description of the book, with its language changed."""
    return Part(text, [Edit(start, end, language) for start, end in _contents_of(list(tokenize(text)), "language")])


def _contents_of(tokens: Sequence[XmlToken], name: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the text in each element of this name that has only text."""
    for opening, content in pairwise(tokens):
        if opening.kind is XmlTokenKind.OPEN and _local(opening) == name and content.kind is XmlTokenKind.TEXT:
            yield content.start, content.end


def _elements(text: str, name: str) -> list[dict[str, str]]:
    """Return the attributes of the elements with this name."""
    opened = (token for token in tokenize(text) if token.kind in (XmlTokenKind.OPEN, XmlTokenKind.EMPTY))
    return [attribute_values(text, token) for token in opened if _local(token) == name]


def _local(token: XmlToken) -> str:
    return token.name.rpartition(":")[2]
