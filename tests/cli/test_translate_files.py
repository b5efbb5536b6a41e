"""`regard translate --input FILES --output FOLDER`: many files, several workers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import regard
from tests.synthetic.conftest import random_lines, untrained_translator, write_lines


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_translator(tmp_path_factory.mktemp("models") / "fr-en")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [write_lines(tmp_path / f"{name}.fr", random_lines(20, seed)) for seed, name in enumerate("abc")]


OPTIONS = (
    [],
    ["--n-best", "3"],
    ["--json", "--alignment"],
    ["--sample", "--seed", "3", "--prefix", "a"],
    ["--markup", "--no-split"],
)


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_files_are_translated_as_one_by_one(model: Path, files: list[Path], tmp_path: Path, options: list[str]) -> None:
    out = tmp_path / "out"
    done = regard("translate", model, "--input", *files, "--output", out, "--part-lines", 7, *options)
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert sorted(path.name for path in out.iterdir() if path.name != ".parts") == ["a.fr", "b.fr", "c.fr"]
    for file in files:
        alone = regard("translate", *options, "--input", file, model)
        assert (out / file.name).read_text() == alone.stdout and alone.stdout


def test_folders_and_patterns_mean_their_files_and_warnings_come_at_the_end(
    model: Path, files: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in files:
        file.rename(folder / file.name)
    write_lines(folder / "a.fr", ["a b", "a " * 3000])
    by_folder = regard("translate", model, "--input", folder, "--output", tmp_path / "one")
    by_pattern = regard("translate", model, "--input", f"{folder}/*.fr", "--output", tmp_path / "two")
    again = regard("translate", model, "--input", folder, "--output", tmp_path / "one")
    for done in (by_folder, by_pattern, again):
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "1 × a line without a translation" in done.stderr and "a.fr, line 2 has 5,999 tokens" in done.stderr
    for name in ("a.fr", "b.fr", "c.fr"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (tmp_path / "one" / "a.fr").read_text().count("\n") == 2
    text = write_lines(tmp_path / "b.txt", (folder / "b.fr").read_text().splitlines())
    assert regard("translate", model, "--input", text, "--output", tmp_path / "new").returncode == 0
    assert (tmp_path / "new" / "b.txt").read_bytes() == (tmp_path / "one" / "b.fr").read_bytes(), "no document"


def test_mistakes_are_one_line(
    model: Path,
    files: list[Path],
    tmp_path: Path,
    error_line: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b, _ = files
    out, document = tmp_path / "out", write_lines(tmp_path / "d.html", ["a"])
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (["--input", a, b], "--output FOLDER"),
        (["--input", a, "--workers", 2], "--workers is for files"),
        (["--text", "a", "--ray", "auto"], "--ray is for files"),
        (["--input", a, b, "--output", out, "--text", "a"], "exclude each other"),
        (["--input", a, "--output", tmp_path / "a.en"], "make a folder of that name first"),
        (["--input", a, b, "--output", a], "is a file"),
        (["--input", a, b, "--output", tmp_path], "is the folder of"),
        (["--input", a, document, "--output", out], "is a document"),
        (["--input", tmp_path / "empty", "--output", out], "has no files"),
        (["--input", a, b, "--output", out, "--beam", 2, "--n-best", 4], "beam of at least 4"),
        (["--input", a, b, "--output", out, "--engine", "fast"], "--engine fast: unknown"),
        (["--input", a, b, "--output", out, "--ray", "auto", "--device", "cuda:1"], "choose cpu or cuda"),
        (["--input", a, b, "--output", out, "--ray", "127.0.0.1:1"], "cannot connect"),
        (["--input", a, b, "--output", out, "--workers", 0], "give at least 1"),
    ):
        assert message in error_line("translate", model, *arguments), arguments
    monkeypatch.setattr("regard.ray_cluster.find_spec", lambda name: None)
    line = error_line("translate", model, "--input", a, b, "--output", out, "--ray", "auto")
    assert line == "regard: --ray needs a package: pip install 'regard[ray]'"
    assert regard("translate", model, "--input", a, b, "--output", out).returncode == 0, "mistakes are not in the way"
    assert "was begun with" in error_line("translate", model, "--input", a, b, "--output", out, "--beam", 1)
