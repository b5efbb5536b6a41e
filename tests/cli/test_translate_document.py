"""`regard translate DIR --input DOCUMENT --output TRANSLATION`"""

import io
from collections.abc import Callable
from pathlib import Path

import docx
import pytest

from tests.cli.command import regard
from tests.documents.samples import archive, save_word


def test_a_document_is_translated(toy_run: Path, tmp_path: Path) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("a b ")
    paragraph.add_run("c d").bold = True
    (tmp_path / "letter.docx").write_bytes(save_word(document))
    done = regard("translate", toy_run, "--input", tmp_path / "letter.docx", "--output", tmp_path / "brief.docx")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    [paragraph] = docx.Document(io.BytesIO((tmp_path / "brief.docx").read_bytes())).paragraphs
    assert paragraph.text == "d c b a" and any(run.bold for run in paragraph.runs)


def test_a_paragraph_that_is_too_long_is_reported(toy_run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(
        "1\n00:00:01,000 --> 00:00:02,000\na b c\n\n2\n00:00:03,000 --> 00:00:04,000\na b\n"
    )
    done = regard(
        "translate", toy_run, "--input", tmp_path / "a.srt", "--output", tmp_path / "b.srt", "--max-source", 2
    )
    assert done.returncode == 2 and "a sentence has 3 tokens" in done.stderr and done.stderr.count("\n") == 1
    assert (tmp_path / "b.srt").read_text().splitlines()[2::4] == ["a b c", "b a"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--input", "a.docx"], "name its translation with --output FILE.docx"),
        (["--output", "b.docx"], "--output needs --input"),
        (["--input", "a.docx", "--output", "b.txt"], "let its name end with .docx"),
        (["--input", "a.docx", "--output", "a.docx"], "is the document itself"),
        (["--input", "a.docx", "--output", "no/b.docx"], "there is no folder"),
        (["--input", "a.tmx", "--output", "b.tmx"], "the translations of lines go into a folder"),
        (["--input", "no.docx", "--output", "b.docx"], "no such file"),
        (["--input", "a.docx", "--output", "b.docx", "--n-best", "2"], "--n-best has no effect on a document"),
        (["--input", "a.docx", "--output", "b.docx", "--text", "a"], "--text has no effect on a document"),
        (["--input", "a.docx", "--output", "b.docx", "--markup"], "--markup has no effect on a document"),
        (["--input", "a.docx", "--output", "b.docx"], "not a Word document"),
    ],
)
def test_mistakes_are_one_line(
    toy_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error_line: Callable[..., str],
    arguments: list[str],
    problem: str,
) -> None:
    (tmp_path / "a.docx").write_bytes(archive({"[Content_Types].xml": "<Types/>"}))
    (tmp_path / "a.tmx").write_text("")
    monkeypatch.chdir(tmp_path)
    assert problem in error_line("translate", toy_run, *arguments)
    assert not (tmp_path / "b.docx").exists()
