"""Plain text files: each line is a segment."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.documents.limits import DocumentLimits
from regard.documents.xml_text import decode_text
from regard.text.html_tokens import HtmlToken
from regard.text.markup import TaggedText

_LINE = re.compile(r"[^\s][^\r\n]*")


@dataclass(frozen=True)
class TextDocument:
    text: str
    encoding: str

    @property
    def segments(self) -> Sequence[TaggedText]:
        return [TaggedText.of_tokens([HtmlToken("text", line.group())]) for line in _LINE.finditer(self.text)]

    def write(self, translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        return _LINE.sub(lambda _: next(remaining), self.text).encode(self.encoding)


def read_text(content: bytes, language: str, limits: DocumentLimits) -> TextDocument:
    return TextDocument(*decode_text(content))
