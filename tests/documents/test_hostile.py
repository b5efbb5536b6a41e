"""Damaged and hostile documents: one clear error each, in little time and memory."""

import io
import struct
import time
import tracemalloc
import zipfile

import pytest

from regard.documents.errors import DocumentError
from regard.documents.kinds import read_document
from regard.documents.limits import DocumentLimits
from tests.documents.samples import archive, book, open_text, shout, word_document

BOMB = '<!DOCTYPE p [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><html><body><p>&b;</p></body></html>'
OUTSIDE = '<!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/passwd">]><html><body><p>&a;</p></body></html>'
DRM = '<encryption><CipherReference URI="OEBPS/a%20b.xhtml"/></encryption>'


def chapter(xhtml: str) -> bytes:
    return book(more={"OEBPS/a b.xhtml": xhtml})


def encrypted() -> bytes:
    """An archive whose entries say that they are encrypted"""
    content = bytearray(word_document())
    at = 0
    while (at := content.find(b"PK\x01\x02", at)) >= 0:
        content[at + 8] |= 1
        at += 4
    return bytes(content)


def with_claimed_size(size: int) -> bytes:
    """An archive whose first entry claims to unpack to that size"""
    content = bytearray(word_document())
    at = content.find(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(content)


def with_hidden_bytes(n_bytes: int) -> bytes:
    """An archive whose only file claims to be much smaller than what it unpacks to"""
    content = bytearray(archive({"word/document.xml": bytes(n_bytes)}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = content.find(signature) + offset
        content[at : at + 4] = struct.pack("<I", 1_000)
    return bytes(content)


def zeros(name: str) -> bytes:
    return archive({"mimetype": "application/epub+zip", name: bytes(8 << 20)})


def replaced(content: bytes, name: str, text: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        return archive({entry: packed.read(entry) for entry in packed.namelist()} | {name: text})


CASES = [
    ("a.pdf", b"", "not a document"),
    ("a", b"", "not a document"),
    ("a.txt", b"\xff\xfe\xfa", "not valid UTF-16"),
    ("a.txt", b"caf\xe9", "not valid UTF-8"),
    ("a.txt", word_document(), "not valid UTF-8"),
    ("a.txt", b"a\0b", "NUL"),
    ("a.srt", b"the witch\n\nthe cat\n", "no subtitles"),
    ("a.html", b'<meta charset="punycode">', "encoding"),
    ("a.html", b'<meta charset="utf-7">', "encoding"),
    ("a.docx", b"", "archive"),
    ("a.docx", b"plain text", "archive"),
    ("a.docx", word_document()[:-100], "archive"),
    ("a.docx", word_document()[:2000], "archive"),
    ("a.docx", word_document().replace(b"PK\x03\x04", b"PK\x03\x05", 3), "damaged"),
    ("a.docx", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512), "encrypted"),
    ("a.docx", encrypted(), "encrypted"),
    ("a.docx", open_text(), "not what its extension says"),
    ("a.docx", archive({"[Content_Types].xml": "<Types/>"}), "not a Word document"),
    ("a.docx", with_claimed_size(1 << 31), "MiB"),
    ("a.docx", with_claimed_size(1 << 27), "compressed"),
    ("a.docx", replaced(word_document(), "word/document.xml", "<w:document><w:p>"), "not well-formed"),
    ("a.docx", replaced(word_document(), "word/document.xml", BOMB), "entities"),
    ("a.odt", word_document(), "mimetype"),
    ("a.odt", book(), "not an OpenDocument"),
    ("a.odt", replaced(open_text(), "META-INF/manifest.xml", "<m><encryption-data/></m>"), "encrypted"),
    ("a.odt", replaced(open_text(), "content.xml", OUTSIDE), "entities"),
    ("a.epub", open_text(), "container.xml"),
    ("a.epub", zeros("x"), "compressed"),
    ("a.epub", book(more={"../evil": "x"}), "outside"),
    ("a.epub", book(more={"/evil": "x"}), "outside"),
    ("a.epub", book(more={"a\\b": "x"}), "outside"),
    ("a.epub", book(more={f"{n}": "" for n in range(10_000)}), "10,000 files"),
    ("a.epub", book(more={"META-INF/encryption.xml": DRM}), "encrypted"),
    ("a.epub", book(more={"META-INF/container.xml": "<container/>"}), "damaged"),
    ("a.epub", chapter(BOMB), "entities"),
    ("a.epub", chapter(OUTSIDE), "entities"),
    ("a.epub", chapter("<html><p>one</html>"), "not well-formed"),
    ("a.epub", chapter("<b>" * 5000 + "</b>" * 5000), "nested"),
]


@pytest.mark.parametrize(("name", "content", "problem"), CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)])
def test_a_bad_document_is_one_error(name: str, content: bytes, problem: str) -> None:
    begin = time.monotonic()
    with pytest.raises(DocumentError, match=problem) as error:
        read_document(content, name, "fr", DocumentLimits())
    assert "\n" not in str(error.value) and time.monotonic() - begin < 2


def test_two_files_of_one_name_are_refused() -> None:
    packed = io.BytesIO(book())
    with pytest.warns(UserWarning), zipfile.ZipFile(packed, "a") as appended:
        appended.writestr("OEBPS/a b.xhtml", "<html/>")
    with pytest.raises(DocumentError, match="same name"):
        read_document(packed.getvalue(), "a.epub", "fr", DocumentLimits())


def test_no_more_is_unpacked_than_an_archive_claims() -> None:
    content = with_hidden_bytes(64 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match="damaged"):
            read_document(content, "a.docx", "fr", DocumentLimits())
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_limits_can_be_set() -> None:
    for options in ({"bytes": 10}, {"unpacked": 10}, {"entries": 2}, {"markup": 500}):
        limits = DocumentLimits.parse(options)
        with pytest.raises(DocumentError, match="more than"):
            read_document(book(), "a.epub", "fr", limits)


def test_fonts_of_a_book_may_be_encrypted() -> None:
    assert shout(book(more={"META-INF/encryption.xml": DRM.replace("a%20b.xhtml", "font.otf")}), "a.epub")


def word_part(inner: str) -> bytes:
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return replaced(word_document(), "word/document.xml", f'<w:d xmlns:w="{word}"><w:p>{inner}</w:p></w:d>')


def open_part(inner: str) -> bytes:
    name = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    return replaced(open_text(), "content.xml", f'<d xmlns:text="{name}"><text:p>{inner}</text:p></d>')


N = 2_000
FIELD = "<w:fldChar w:fldCharType='begin'/><w:fldChar w:fldCharType='end'/>"
CUE = b"00:00:01,000 --> 00:00:02,000\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"a b " * N),
        ("a.txt", b"\n" * 20 * N),
        ("a.html", b"<b>a" * N),
        ("a.html", b"<sup>" * N + b"a" + b"</sup>" * N),
        ("a.srt", CUE + b"<i>a " * N),
        ("a.srt", CUE + b"a\n" * N),
        ("a.srt", (CUE + b"a\n\n") * N),
        ("a.epub", book("<p>" + "<b>a</b> <i/>" * N + "</p>")),
        ("a.docx", word_part("<w:r><w:t>a </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>b </w:t></w:r>" * N)),
        ("a.docx", word_part("<w:r><w:t>a </w:t><w:tab/></w:r>" * N)),
        ("a.docx", word_part("<w:r><w:fldChar w:fldCharType='begin'/></w:r>" * N + "<w:r><w:t>a</w:t></w:r>")),
        ("a.docx", word_part(f"<w:r><w:t>a</w:t>{FIELD}</w:r>" * N)),
        ("a.odt", open_part("<text:span>a </text:span><text:s/>" * N)),
        ("a.odt", open_part("<text:span>a <text:tab/></text:span>" * N)),
    ],
    ids=range(14),
)  # fmt: skip
def test_hostile_documents_take_little_time(name: str, content: bytes) -> None:
    begin = time.monotonic()
    shout(content, name)
    assert time.monotonic() - begin < 5
