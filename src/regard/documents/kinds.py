"""The kinds of documents, by extension."""

from collections.abc import Callable
from pathlib import Path, PurePath

from regard.documents.document import Document
from regard.documents.docx import read_docx
from regard.documents.epub import read_epub
from regard.documents.errors import DocumentError
from regard.documents.html_file import read_html
from regard.documents.language_tag import language_tag
from regard.documents.limits import DocumentLimits
from regard.documents.odt import read_odt
from regard.documents.plain_text import read_text
from regard.documents.srt import read_srt
from regard.errors import UserError
from regard.paths import check_input_file, check_output_file

_READERS: dict[str, Callable[[bytes, str, DocumentLimits], Document]] = {
    ".txt": read_text,
    ".html": read_html,
    ".htm": read_html,
    ".docx": read_docx,
    ".odt": read_odt,
    ".srt": read_srt,
    ".epub": read_epub,
}
EXTENSIONS = tuple(_READERS)


def is_document(name: str) -> bool:
    """Whether a file's name has the extension of a document."""
    return _extension(name) in _READERS


def is_rich_document(name: str) -> bool:
    """Whether a file's name has the extension of a document that is more than lines of text."""
    return is_document(name) and _extension(name) != ".txt"


def check_document_files(source: Path, target: Path) -> None:
    """Refuse a document or a translation that cannot be read or written, or has the wrong extension."""
    check_input_file(source, read_once=False)
    if not is_document(source.name):
        raise UserError(f"{source}: is no document that can be translated; these are {', '.join(EXTENSIONS)}")
    check_output_file(target, "--output")
    if source.suffix.lower() != target.suffix.lower():
        raise UserError(f"{target}: a translation is of the same kind; let its name end with {source.suffix}")
    if target.exists() and target.samefile(source):
        raise UserError(f"{target}: is the document itself; name another file for the translation")


def read_document(content: bytes, name: str, language: str, limits: DocumentLimits) -> Document:
    """Read a document of the kind that its name's extension says; translated, it will be in that language."""
    if not is_document(name):
        raise DocumentError(f"is not a document that can be translated ({', '.join(EXTENSIONS)})")
    if len(content) > limits.bytes:
        raise DocumentError(f"has more than {limits.bytes:,} bytes")
    return _READERS[_extension(name)](content, language_tag(language), limits)


def _extension(name: str) -> str:
    return PurePath(name).suffix.lower()
