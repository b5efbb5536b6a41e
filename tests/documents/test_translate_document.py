"""Whole documents through a model."""

import re
from pathlib import Path

import pytest

import regard
from regard.documents.segment_translation import SegmentTranslation
from regard.pipelines.translator import Translator
from regard.text.markup import TaggedText
from tests.documents.samples import word_document
from tests.serve.models import STACK, save_toy


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """An untrained model: what it writes has no meaning, but depends on the source."""
    return regard.load(save_toy(tmp_path_factory.mktemp("toy"), STACK))


def test_a_document_is_translated_as_its_sentences_are(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("a b one. D e f?\n\n12\na b {x} c\na b one. D e f?\n")
    report = regard.translate_document(translator, source, target, beam=2)
    first, empty, number, tagged, again = target.read_text().splitlines()
    [expected] = translator.translate(["a b one. D e f?"], split=True, beam=2)
    assert len(expected.sentences) == 2
    assert (first, empty, number, again) == (expected.text, "", "12", first)
    assert tagged.count("{x}") == 1
    assert (report.n_segments, report.problems) == (4, ())


def test_a_paragraph_with_a_sentence_that_is_too_long_stays(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text(f"<p>a &lt; <b>{'b ' * 200}</b> &amp; c</p><p>a</p>")
    report = regard.translate_document(translator, source, target, max_source=100)
    assert len(report.problems) == 1 and report.n_segments == 2
    assert target.read_text().startswith(source.read_text()[:-10])


def test_spaces_and_line_breaks_of_html_are_kept_once(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>\n  a b\n</p> c <br> d ")
    regard.translate_document(translator, source, target)
    assert re.sub(r"[a-p]( [a-p])*(?=\s*(<|$))", "x", target.read_text()) == "<p>\n  x\n</p> x <br> x "


def test_only_segments_with_tags_need_attention(translator: Translator) -> None:
    def work(text: str, copy_unknown: bool = False) -> SegmentTranslation:
        return SegmentTranslation.of(TaggedText.parse(text), translator, copy_unknown)

    assert not work("a b").needs_attention and work("a <b>b</b>").needs_attention and work("a {x}").needs_attention
    assert work("a b", copy_unknown=True).needs_attention
    assert work("{x} 12").split.sentences == () and work("One two. Three.").split.sentences == ("One two.", "Three.")


def test_errors_name_the_file(translator: Translator, tmp_path: Path) -> None:
    source = tmp_path / "a.docx"
    source.write_bytes(word_document()[:1000])
    (tmp_path / "a.txt").write_text("a")
    for given, target, problem in [
        (source, "b.docx", f"{source}: is a damaged archive"),
        (source, "b.odt", "same kind"),
        (source, "a.docx", "is the document itself"),
        (source, "missing/b.docx", "no folder"),
        (tmp_path / "missing.docx", "b.docx", "no such file"),
        (tmp_path, "b.docx", "is a folder"),
    ]:
        with pytest.raises(regard.UserError, match=problem):
            regard.translate_document(translator, given, tmp_path / target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.docx", "a.txt"]
