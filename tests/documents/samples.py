"""Documents for tests, and a stand-in for a translator that writes in capitals."""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

import docx
import odfdo
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.text.paragraph import Paragraph

from regard.documents.kinds import read_document
from regard.documents.limits import DocumentLimits
from regard.text.markup import TaggedText
from regard.text.units import split_units

HYPERLINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"


def shout(content: bytes, name: str, limits: DocumentLimits | None = None, backwards: bool = False) -> bytes:
    """Return a document "translated" to capitals; `backwards`: the words of each segment in reverse order."""
    document = read_document(content, name, "fr", limits or DocumentLimits())
    return document.write([_shout(segment, backwards) for segment in document.segments])


def _shout(segment: TaggedText, backwards: bool) -> str:
    words = split_units(segment.plain)
    order = list(range(len(words)))[:: -1 if backwards else 1]
    return segment.restore([words[i].upper() for i in order], order)


def png() -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" + bytes(range(6)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def archive(files: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as written:
        for name, content in files.items():
            written.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else compression)
    return packed.getvalue()


def word_document() -> bytes:
    document = docx.Document()
    document.core_properties.title = "Letter"
    document.add_heading("the green witch", 1)
    mixed = document.add_paragraph("the ")
    mixed.add_run("green witch").bold = True
    mixed.add_run(" and {name} met the ")
    add_link(mixed, "https://example.org", "old cat")
    mixed.add_run(".")
    document.add_paragraph("the friend", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "the cat", "42"
    document.add_picture(io.BytesIO(png()))
    lines = document.add_paragraph("first line")
    lines.add_run().add_break()
    lines.add_run("left\tright")
    document.add_page_break()
    add_field(document.add_paragraph("page "), " PAGE ", "seven")
    add_field(document.add_paragraph("read "), ' HYPERLINK "https://example.org/x" ', "this page")
    section = document.sections[0]
    section.header.paragraphs[0].text, section.footer.paragraphs[0].text = "the head", "the foot"
    return save_word(document)


def save_word(document: object) -> bytes:
    packed = io.BytesIO()
    document.save(packed)  # type: ignore[attr-defined]
    return packed.getvalue()


def add_link(paragraph: Paragraph, address: str, text: str) -> None:
    link = OxmlElement("w:hyperlink")
    link.set(qn("r:id"), paragraph.part.relate_to(address, HYPERLINK, is_external=True))
    run = OxmlElement("w:r")
    run.text = text
    link.append(run)
    paragraph._p.append(link)


def add_field(paragraph: Paragraph, instruction: str, result: str) -> None:
    for kind in ("begin", "", "separate", "result", "end"):
        run = paragraph.add_run()._r
        if kind == "result":
            run.text = result
            continue
        mark = OxmlElement("w:fldChar" if kind else "w:instrText")
        if kind:
            mark.set(qn("w:fldCharType"), kind)
        else:
            mark.text = instruction
        run.append(mark)


def open_text() -> bytes:
    document = odfdo.Document("text")
    body = document.body
    body.clear()
    body.append(odfdo.Header(1, "the green witch"))
    spanned = odfdo.Paragraph("the green witch met {name}")
    spanned.set_span("T1", regex="green")
    body.append(spanned)
    noted = odfdo.Paragraph("the cat sleeps.")
    noted.insert_note(after="cat", note_id="n1", citation="1", body="the note")
    body.append(noted)
    body.append(odfdo.List(["the friend", "the dog"]))
    table = odfdo.Table("T", width=1, height=1)
    table.get_cell((0, 0)).append(odfdo.Paragraph("the cell"))
    cell = odfdo.Cell()
    cell.append(odfdo.Paragraph("the cell"))
    table.set_cell((0, 0), cell)
    body.append(table)
    body.append(odfdo.Paragraph("left\tright\nlast line"))
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


def book(chapter: str | None = None, more: Mapping[str, str | bytes] | None = None) -> bytes:
    items = {"a b.xhtml": "application/xhtml+xml", "nav.xhtml": "application/xhtml+xml"}
    items |= {"toc.ncx": "application/x-dtbncx+xml", "picture.png": "image/png"}
    manifest = "".join(
        f'<item id="i{n}" href="{name.replace(" ", "%20")}" media-type="{kind}"/>'
        for n, (name, kind) in enumerate(items.items())
    )
    page = '<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en"><head><title>{0}</title></head><body>{1}</body>'
    page += "</html>"
    chapter = chapter or '<h1>the witch</h1><p>the <b>green</b> witch&#160;met<a href="#n"><sup>1</sup></a> {name}.</p>'
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfile full-path="OEBPS/book.opf"/></container>',
            "OEBPS/book.opf": '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Book</dc:title>'
            f"<dc:language>en-GB</dc:language></metadata><manifest>{manifest}</manifest></package>",
            "OEBPS/a b.xhtml": page.replace("{0}", "the title").replace("{1}", chapter),
            "OEBPS/nav.xhtml": page.replace("{0}", "").replace("{1}", '<ol><li><a href="a">the way</a></li></ol>'),
            "OEBPS/toc.ncx": '<ncx xml:lang="en"><navLabel><text>the way</text></navLabel></ncx>',
            "OEBPS/picture.png": png(),
            **(more or {}),
        }
    )


SUBTITLES = (
    "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>the green witch\r\nmet you</i>\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000 X1:1\r\n- did you?\r\n- yes & no\r\n\r\n"
    "3\r\n00:00:05,000 --> 00:00:06,000\r\n{\\an8}the <b>old</b> cat\r\n"
)
