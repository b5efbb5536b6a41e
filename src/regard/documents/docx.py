"""Word documents: paragraphs of the body, headers, footers, foot- and endnotes, and text boxes."""

from collections.abc import Mapping

from regard.documents.archive import Archive
from regard.documents.document import EncodedPart, PackageDocument
from regard.documents.docx_paragraph import WORD, ParagraphReader
from regard.documents.errors import DocumentError
from regard.documents.language_tag import script_group
from regard.documents.limits import DocumentLimits
from regard.documents.part import Part, attribute_edits
from regard.documents.xml_text import (
    XmlTokenKind,
    attribute_values,
    matching_tags,
    namespace_prefixes,
    read_xml,
    tokenize,
)

_NAMES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": WORD,
    "http://purl.oclc.org/ooxml/wordprocessingml/main": WORD,
}
_CONTENT_TYPES = "[Content_Types].xml"
_STYLES = "styles+xml"
_LANGUAGES = {"western": "val", "asian": "eastAsia", "complex": "bidi"}
"""The attributes of w:lang, by the script of the language"""
_TEXTS = ("document.main+xml", "header+xml", "footer+xml", "footnotes+xml", "endnotes+xml")
"""How the types of parts with text end"""


def read_docx(content: bytes, language: str, limits: DocumentLimits) -> PackageDocument:
    archive = Archive.read(content, limits)
    types, _ = read_xml(archive.file(_CONTENT_TYPES), limits)
    declared = [attribute_values(types, token) for token in tokenize(types) if token.kind is XmlTokenKind.EMPTY]
    kinds = {v.get("PartName", "").removeprefix("/"): v.get("ContentType", "") for v in declared}
    kinds = {name: kind for name, kind in kinds.items() if name in archive.files}
    texts = {n: _read_part(archive.file(n), limits) for n, kind in kinds.items() if kind.endswith(_TEXTS)}
    if not texts:
        raise DocumentError("is not a Word document")
    styles = {n: _read_styles(archive.file(n), language, limits) for n, k in kinds.items() if k.endswith(_STYLES)}
    return PackageDocument(archive, texts | styles)


def _read_styles(content: bytes, language: str, limits: DocumentLimits) -> EncodedPart:
    """Return the styles with another language, by which Word checks spelling and hyphenates."""
    text, encoding = read_xml(content, limits)
    prefixes = namespace_prefixes(text, _NAMES)
    tokens = [token for token in tokenize(text, prefixes) if token.name == f"{WORD}lang"]
    attribute = _prefix(prefixes) + _LANGUAGES[script_group(language)]
    return EncodedPart(Part(text, attribute_edits(text, tokens, {attribute: language})), encoding)


def _read_part(content: bytes, limits: DocumentLimits) -> EncodedPart:
    text, encoding = read_xml(content, limits)
    prefixes = namespace_prefixes(text, _NAMES)
    tokens = list(tokenize(text, prefixes))
    closing = matching_tags(tokens)
    reader = ParagraphReader(text, tokens, closing, _prefix(prefixes))
    paragraphs = (i for i, token in enumerate(tokens) if i in closing and token.name == f"{WORD}p")
    blocks = (reader.read(i) for i in paragraphs)
    return EncodedPart(Part(text, [block for block in blocks if block is not None]), encoding)


def _prefix(prefixes: Mapping[str, str]) -> str:
    """Return how names of WordprocessingML begin in a file."""
    return next((prefix + ":" if prefix else "" for prefix in prefixes), WORD)
