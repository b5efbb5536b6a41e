"""`regard translate --glossary` on the toy model, which reverses letters."""

import json
from collections.abc import Callable
from pathlib import Path

import regard as library
from tests.cli.command import regard


def glossary_file(folder: Path, content: str) -> Path:
    path = folder / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    return path


def test_terms_are_translated_as_in_the_glossary(toy_run: Path, tmp_path: Path) -> None:
    terms = glossary_file(tmp_path, "# term\ttarget\na b\th h\ng\tb | f\n")
    lines = ["c d e", "a b c", "g c", "c G d"]
    done = regard("translate", toy_run, "--glossary", terms, stdin="\n".join(lines).encode())
    assert done.returncode == 0 and "glossary" not in done.stderr, done.stderr
    out = done.stdout.splitlines()
    assert out[0] == "e d c", "no term"
    assert "h h" in out[1] and {"b", "f"} & set(out[2].split()) and {"b", "f"} & set(out[3].split())
    translator, glossary = library.load(toy_run), library.Glossary.read(terms)
    assert isinstance(translator, library.Translator)
    assert [t.text for t in translator.translate(lines, glossary=glossary)] == out


def test_an_unmet_term_is_reported(toy_run: Path, tmp_path: Path) -> None:
    terms = glossary_file(tmp_path, "a\tnever-seen\n")
    arguments = ("translate", toy_run, "--glossary", terms, "--text", "c d", "--text", "a b")
    done = regard(*arguments)
    assert done.returncode == 0, done.stderr
    assert "1 × a term of the glossary that is not in the translation: line 2: a → never-seen" in done.stderr
    rows = [json.loads(line) for line in regard(*arguments, "--json").stdout.splitlines()]
    assert "unmet_terms" not in rows[0] and rows[1]["unmet_terms"] == ["a → never-seen"]


def test_a_document_with_a_glossary(toy_run: Path, tmp_path: Path) -> None:
    terms, source = glossary_file(tmp_path, "a b\th h\nc\tnever-seen\n"), tmp_path / "letter.txt"
    source.write_text("d e a b\n\nc d\n", encoding="utf-8")
    target = tmp_path / "translated.txt"
    done = regard("translate", toy_run, "--glossary", terms, "--input", source, "--output", target)
    assert done.returncode == 0 and "1 × a term" in done.stderr, done.stderr
    assert "h h" in target.read_text(encoding="utf-8")


def test_wrong_files_are_refused(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    def refused(terms: Path) -> str:
        return error_line("translate", toy_run, "--text", "a b", "--glossary", terms)

    assert "line 2: has no tab" in refused(glossary_file(tmp_path, "a\tb\nc d\n"))
    assert "has no terms" in refused(glossary_file(tmp_path, ""))
    assert "no such file" in refused(tmp_path / "missing.tsv")
    assert "is a folder" in refused(tmp_path)
    line = error_line("translate", toy_run, "--text", "a b", "--glossary", glossary_file(tmp_path, "a\tb"), "--sample")
    assert "need beam search" in line
