"""OpenDocument texts: paragraphs, headings, notes and text boxes, headers and footers."""

from regard.documents.archive import Archive
from regard.documents.document import EncodedPart, PackageDocument
from regard.documents.errors import DocumentError
from regard.documents.language_tag import script_group
from regard.documents.limits import DocumentLimits
from regard.documents.odt_paragraph import OdtReader
from regard.documents.part import Part, attribute_edits
from regard.documents.xml_text import matching_tags, namespace_prefixes, read_xml, tokenize

_NAMES = {"urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text:"}
_PARTS = ("content.xml", "styles.xml")
_LANGUAGES = {
    "western": ("fo:language", "fo:country"),
    "asian": ("style:language-asian", "style:country-asian"),
    "complex": ("style:language-complex", "style:country-complex"),
}
"""The attributes of styles by which spelling is checked"""
_TYPE = b"application/vnd.oasis.opendocument.text"


def read_odt(content: bytes, language: str, limits: DocumentLimits) -> PackageDocument:
    archive = Archive.read(content, limits)
    if not archive.file("mimetype").startswith(_TYPE):
        raise DocumentError("is not an OpenDocument text")
    if b"encryption-data" in archive.files.get("META-INF/manifest.xml", b""):
        raise DocumentError("is encrypted; remove the password first")
    if "content.xml" not in archive.files:
        raise DocumentError("is damaged: it has no content.xml")
    return PackageDocument(
        archive, {name: _read_part(archive.file(name), language, limits) for name in _PARTS if name in archive.files}
    )


def _read_part(content: bytes, language: str, limits: DocumentLimits) -> EncodedPart:
    text, encoding = read_xml(content, limits)
    tokens = list(tokenize(text, namespace_prefixes(text, _NAMES)))
    name, country = _LANGUAGES[script_group(language)]
    edits = attribute_edits(text, tokens, {name: language.split("-")[0], country: "none"})
    return EncodedPart(Part(text, [*OdtReader(text, tokens, matching_tags(tokens)).blocks(), *edits]), encoding)
