"""`regard data`: built-in datasets, and corpora inspected and cleaned."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.app import app


def run(*arguments: object) -> None:
    app([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files with a duplicate at line 8."""
    numbers = [0, 1, 2, 3, 4, 5, 6, 2]
    for side, word in (("en", "cat"), ("fr", "chat")):
        (tmp_path / f"a.{side}").write_text("".join(f"{word} {n}\n" for n in numbers))
    return [tmp_path / "a.en", tmp_path / "a.fr"]


def test_a_dataset_needs_no_word_before_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("data", "copy", tmp_path / "a", "--size", 20)
    run("data", "--size", 20, "copy", tmp_path / "b")
    run("data", "builtin", "copy", tmp_path / "c", "--size", 20)
    contents = [(tmp_path / name / "train.src").read_text() for name in "abc"]
    assert contents[0].count("\n") == 20 and len(set(contents)) == 1
    assert str(tmp_path / "a" / "train.src") in capsys.readouterr().out


def test_help_explains_datasets_and_corpora(capsys: pytest.CaptureFixture[str]) -> None:
    run("data", "--help")
    text = capsys.readouterr().out
    assert all(word in text for word in ("NAME OUT", "grammar", "inspect", "clean"))


def test_inspect_prints_text_json_and_a_picture(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("data", "inspect", *files, "--valid", *files, "--test", *files, "--picture", tmp_path / "a.png")
    text = capsys.readouterr().out
    assert "8 pairs of 8 lines" in text and f"clean {files[0]} {files[1]} --out FOLDER` removes 1 of 8 lines" in text
    assert "8 of 8 sources (100.0 %) of the validation data" in text and "of the test data" in text
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    run("data", "inspect", *files, "--json")
    assert json.loads(capsys.readouterr().out)["removable"] == 1


def test_clean_writes_a_folder(files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("data", "clean", *files, "--out", tmp_path / "clean")
    assert "7 of 8 pairs are clean" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "clean").iterdir()) == ["a.en", "a.fr", "removed.tsv"]
    run("data", "clean", *files, "--out", tmp_path / "all", "--skip", "duplicate")
    assert (tmp_path / "all" / "a.en").read_bytes() == files[0].read_bytes()


def test_mistakes_are_one_line_and_write_nothing(
    files: list[Path], tmp_path: Path, error_line: Callable[..., str]
) -> None:
    out, before = tmp_path / "clean", sorted(tmp_path.iterdir())
    (empty := tmp_path / "empty").write_text("")
    (binary := tmp_path / "binary").write_bytes(bytes(range(256)) * 9)
    for arguments, message in [
        (("inspect", files[0]), "two line-aligned files"),
        (("inspect", *files, files[0]), "one or two data files"),
        (("inspect", tmp_path / "none", files[0]), "no such file"),
        (("inspect", tmp_path, files[0]), "is a folder"),
        (("inspect", empty, empty), "no usable pair"),
        (("inspect", binary, binary), "no usable pair"),
        (("inspect", empty, files[0]), "0 lines"),
        (("inspect", *files, "--picture", tmp_path / "a.txt"), ".png or .svg"),
        (("inspect", *files, "--languages", "en"), "two codes"),
        (("clean", *files, "--out", tmp_path), "already exists"),
        (("clean", *files, "--out", out, "--rule", "speling"), "choose one of duplicate"),
        (("clean", empty, empty, "--out", out), "no usable pair"),
        (("clean", *files), "--out"),
        (("speling", out), "speling"),
    ]:
        assert message in error_line("data", *arguments)
    assert sorted(tmp_path.iterdir()) == sorted([*before, empty, binary])
