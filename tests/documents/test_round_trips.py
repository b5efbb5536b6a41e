"""Translated documents open in their own readers and have the structure of their sources."""

import io
import xml.etree.ElementTree as ElementTree
import zipfile

import docx
import odfdo
import pytest
from docx.document import Document as WordDocument

from regard.documents.srt import break_lines
from tests.documents.samples import (
    SUBTITLES,
    archive,
    book,
    open_text,
    png,
    save_word,
    shout,
    word_document,
)


def files_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        assert packed.testzip() is None
        return {name: packed.read(name) for name in packed.namelist()}


def shouted_word(content: bytes, backwards: bool = False) -> WordDocument:
    return docx.Document(io.BytesIO(shout(content, "a.docx", backwards=backwards)))


def test_plain_text_keeps_its_lines_and_spaces() -> None:
    text = "\ufeffOne. two?\r\n\r\n  * {name} %s ${x} {{ y }}\n42\n\tthe last: a@b.org https://x.org/a?b=c&d."
    expected = "\ufeffONE. TWO?\r\n\r\n  * {name} %s ${x} {{ y }}\n42\n\tTHE LAST: a@b.org https://x.org/a?b=c&d."
    assert shout(text.encode(), "a.TXT").decode() == expected
    assert shout("é\n".encode("utf-16"), "a.txt").decode("utf-16") == "É\n"
    assert shout(b"", "a.txt") == b""


def test_html_keeps_its_encoding_and_says_its_language() -> None:
    page = '<html lang="en"><meta charset="iso-8859-1"><p>caf\xe9 <b>noir</b><script>x = "<p>no</p>"</script>'
    translated = shout(page.encode("latin-1"), "a.htm").decode("latin-1")
    assert translated == page.replace("caf\xe9", "CAF\xc9").replace("noir", "NOIR").replace('"en"', '"fr"')
    assert shout(b'<meta charset="latin1"><p>\xff', "a.html").endswith(b"<p>&#376;")  # latin1 has no Ÿ


def test_a_word_document_keeps_its_structure() -> None:
    source = word_document()
    document, original = shouted_word(source), docx.Document(io.BytesIO(source))
    assert [p.text for p in document.paragraphs] == [
        "THE GREEN WITCH",
        "THE GREEN WITCH AND {name} MET THE OLD CAT.",
        "THE FRIEND",
        "",
        "FIRST LINE\nLEFT\tRIGHT",
        "",  # the page break
        "PAGE seven",
        "READ THIS PAGE",
    ]
    assert [p.style.name for p in document.paragraphs] == [p.style.name for p in original.paragraphs]
    mixed = document.paragraphs[1]
    assert [run.text for run in mixed.runs if run.bold] == ["GREEN WITCH"]
    [link] = mixed.hyperlinks
    assert (link.text, link.address) == ("OLD CAT", "https://example.org")
    assert [cell.text for cell in document.tables[0].rows[0].cells] == ["THE CAT", "42"]
    section = document.sections[0]
    assert (section.header.paragraphs[0].text, section.footer.paragraphs[0].text) == ("THE HEAD", "THE FOOT")
    assert document.core_properties.title == "Letter" and len(document.inline_shapes) == 1
    changed = {name for name, content in files_of(source).items() if files_of(shout(source, "a.docx"))[name] != content}
    assert changed == {"word/document.xml", "word/header1.xml", "word/footer1.xml", "word/styles.xml"}
    styles = [files_of(content)["word/styles.xml"] for content in (source, shout(source, "a.docx"))]
    assert styles[0].replace(b'w:lang w:val="en-US"', b'w:lang w:val="fr"') == styles[1] != styles[0]


def test_formats_and_links_of_a_word_document_follow_their_words() -> None:
    mixed = shouted_word(word_document(), backwards=True).paragraphs[1]
    assert mixed.text == "CAT. OLD THE {name} MET AND WITCH GREEN THE"
    assert [run.text.strip() for run in mixed.runs if run.bold] == ["WITCH GREEN"]
    assert [link.text for link in mixed.hyperlinks] == ["CAT. OLD"]


def test_runs_that_look_alike_are_one_and_nothing_to_translate_changes_nothing() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for letters in ("the gr", "een wi", "tch"):
        paragraph.add_run(letters)
    document.add_paragraph("42 %")
    source = save_word(document)
    assert [run.text for run in shouted_word(source).paragraphs[0].runs] == ["THE GREEN WITCH"]
    only_numbers = docx.Document()
    only_numbers.add_paragraph("42 %")
    source = save_word(only_numbers)
    assert files_of(shout(source, "a.docx"))["word/document.xml"] == files_of(source)["word/document.xml"]


@pytest.mark.parametrize(("n_bold", "is_formatted"), [(150, True), (250, False)])
def test_a_paragraph_with_many_formats_may_lose_these_but_nothing_else(n_bold: int, is_formatted: bool) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for i in range(n_bold):
        paragraph.add_run("a ")
        paragraph.add_run("b ").bold = True
        if i == n_bold // 2:
            paragraph.add_run().add_picture(io.BytesIO(png()))
    [translated] = shouted_word(save_word(document)).paragraphs
    assert translated.text.split() == ["A", "B"] * n_bold
    assert len(translated._p.xpath(".//pic:pic")) == 1
    assert any(run.bold and run.text.strip() for run in translated.runs) is is_formatted


def test_text_boxes_and_notes_of_a_word_document_are_translated_where_they_are() -> None:
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    box = "<v:textbox><q:txbxContent><q:p><q:r><q:t>in the box</q:t></q:r></q:p></q:txbxContent></v:textbox>"
    body = (
        f'<q:document xmlns:q="{word}" xmlns:v="urn:schemas-microsoft-com:vml"><q:body><q:p><q:r><q:t>before</q:t>'
        f"<q:pict>{box}</q:pict><q:t>after &lt;b&gt;</q:t></q:r><q:r><q:footnoteReference q:id='1'/></q:r><q:proofErr/>"
        "<q:del><q:r><q:delText>gone</q:delText></q:r></q:del><q:r><q:t> end</q:t></q:r></q:p></q:body></q:document>"
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    types = f'<Types><Override PartName="/word/d.xml" ContentType="{kind}.document.main+xml"/></Types>'
    written = files_of(shout(archive({"[Content_Types].xml": types, "word/d.xml": body}), "a.docx"))[
        "word/d.xml"
    ].decode()
    root = ElementTree.fromstring(written)
    texts = ["".join(t.text or "" for t in p.findall(f"{{{word}}}r/{{{word}}}t")) for p in root.iter(f"{{{word}}}p")]
    assert texts == ["BEFOREAFTER <B> END", "IN THE BOX"]
    assert written.count("<q:footnoteReference q:id='1'/>") == 1 and "<q:delText>gone</q:delText>" in written


def test_an_open_document_keeps_its_structure() -> None:
    source = open_text()
    content = shout(source, "a.odt")
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        first = packed.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    body = odfdo.Document(io.BytesIO(content)).body
    assert [header.text for header in body.headers] == ["THE GREEN WITCH"]
    assert [span.text for span in body.get_elements("//text:span")] == ["GREEN"]
    [note] = body.get_notes()
    assert note.note_body.strip() == "THE NOTE" and note.citation == "1"
    assert [p.text_recursive for p in body.get_elements("//text:list-item/text:p")] == ["THE FRIEND", "THE DOG"]
    assert [p.text_recursive for p in body.get_elements("//table:table-cell/text:p")] == ["THE CELL"]
    paragraphs = body.get_elements("office:text/text:p") or body.paragraphs
    assert "THE CAT" in "".join(p.text_recursive for p in paragraphs)
    last = body.paragraphs[-1].serialize()
    assert "LEFT<text:tab/>RIGHT<text:line-break/>LAST LINE" in last
    sources, written = files_of(source), files_of(content)
    assert {name for name in sources if sources[name] != written[name]} == {"content.xml", "styles.xml"}
    assert b'fo:language="fr" fo:country="none"' in written["styles.xml"]


def test_a_book_keeps_its_structure() -> None:
    content = shout(book(), "a.epub")
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        first = packed.infolist()[0]
        assert (first.filename, first.compress_type, first.extra) == ("mimetype", zipfile.ZIP_STORED, b"")
    files = files_of(content)
    for name, text in files.items():
        if name.endswith(("xml", "xhtml", "opf", "ncx")):
            ElementTree.fromstring(text)
    chapter = files["OEBPS/a b.xhtml"].decode()
    assert "<title>THE TITLE</title>" in chapter and 'xml:lang="fr"' in chapter
    assert '<p>THE <b>GREEN</b> WITCH MET<a href="#n"><sup>1</sup></a> {name}.</p>' in chapter
    assert '<a href="a">THE WAY</a>' in files["OEBPS/nav.xhtml"].decode()
    assert '<ncx xml:lang="fr"><navLabel><text>THE WAY</text>' in files["OEBPS/toc.ncx"].decode()
    assert "<dc:title>Book</dc:title><dc:language>fr</dc:language>" in files["OEBPS/book.opf"].decode()
    assert files["OEBPS/picture.png"] == png()


def test_subtitles_keep_their_numbers_times_and_lines() -> None:
    expected = (
        SUBTITLES.replace("the green witch", "THE GREEN WITCH")
        .replace("met you", "MET YOU")
        .replace("did you?", "DID YOU?")
    )
    expected = expected.replace("yes & no", "YES & NO").replace("the <b>old</b> cat", "THE <b>OLD</b> CAT")
    assert shout(SUBTITLES.encode(), "a.srt").decode() == expected


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("<i>the witch</i> met you", "YOU MET <i>WITCH THE</i>"),
        ("you met <i>the witch</i>", "<i>WITCH THE</i> MET YOU"),
        ("{\\an8}<b>the</b> witch", "{\\an8}WITCH <b>THE</b>"),
        ("<i>the witch</i>", "<i>WITCH THE</i>"),
        ("<i>the <b>old</b> witch", "<i>WITCH <b>OLD</b> THE"),
    ],
)
def test_tags_of_subtitles_move_with_the_words_that_they_enclose(cue: str, expected: str) -> None:
    head = "1\n00:00:01,000 --> 00:00:02,500\n"
    assert shout((head + cue).encode(), "a.srt", backwards=True).decode() == head + expected


@pytest.mark.parametrize(
    ("text", "widths", "expected"),
    [
        ("one two three four", [8, 10], ["one two", "three four"]),
        ("one", [3, 3], ["one", ""]),
        ('<font color="a b">one</font> two', [3, 3], ['<font color="a b">one</font>', "two"]),
        ("一二三四", [1, 1], ["一二", "三四"]),
        ("一<i>二</i>", [1, 1], ["一", "<i>二</i>"]),
        ("<i>一</i>", [1, 1], ["<i>一</i>", ""]),
    ],
)
def test_lines_of_subtitles(text: str, widths: list[int], expected: list[str]) -> None:
    assert break_lines(text, widths) == expected
