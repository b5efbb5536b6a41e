"""HTML and XHTML files: `HtmlDocument` with an encoding and a language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.documents.limits import DocumentLimits
from regard.documents.xml_text import decode_markup
from regard.text.html_document import HtmlDocument
from regard.text.html_tokens import html_tokens
from regard.text.markup import TaggedText

_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>/]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class HtmlFile:
    document: HtmlDocument
    encoding: str

    @classmethod
    def of(cls, text: str, encoding: str, language: str) -> "HtmlFile":
        return cls(HtmlDocument.parse(_in_language(text, language)), encoding)

    @property
    def segments(self) -> Sequence[TaggedText]:
        return self.document.texts

    def write(self, translations: Sequence[str]) -> bytes:
        """Characters that the encoding lacks are written as references."""
        return self.document.join(translations).encode(self.encoding, "xmlcharrefreplace")


def read_html(content: bytes, language: str, limits: DocumentLimits) -> HtmlFile:
    """Return the document; if it says in which language it is, that becomes the given one."""
    text, encoding = decode_markup(content)
    return HtmlFile.of(text, encoding, language)


def _in_language(text: str, language: str) -> str:
    """Return HTML with another language of its root element."""
    at = 0
    for token in html_tokens(text):
        if token.kind == "open":
            if token.name != "html":
                break
            return text[:at] + _LANGUAGE.sub(rf'\1"{language}"', token.source) + text[at + len(token.source) :]
        at += len(token.source)
    return text
