"""`regard backtranslate` from the command line."""

import errno
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.bundle import Bundle
from regard.data.data_file import read_lines
from tests.cli.command import regard
from tests.synthetic.conftest import random_lines, untrained_translator


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_translator(tmp_path_factory.mktemp("models") / "fr-en")


def written(folder: Path, name: str = "text.fr", n: int = 40) -> Path:
    path = folder / name
    path.write_text("\n".join(random_lines(n)) + "\n")
    return path


def test_pairs_are_made_of_target_text(model: Path, tmp_path: Path) -> None:
    text, out = written(tmp_path), tmp_path / "pairs.tsv.gz"
    arguments = ("backtranslate", model, text, "--out", out, "--keep", 0.9, "--part-lines", 7)
    done = regard(*arguments)
    assert done.returncode == 0, done.stderr
    pairs = [line.decode().split("\t") for line in read_lines(out)]
    assert {target for _, target in pairs} <= set(text.read_text().splitlines())
    assert f"{len(pairs)} of 40 pairs are kept" in done.stdout
    assert "not among the best 90 % by score" in done.stdout
    assert 'tag: "<bt>"' in done.stdout and f'files: "{out}"' in done.stdout
    dropped = list(read_lines(tmp_path / "pairs.dropped.tsv.gz"))[1:]
    assert len(pairs) + len(dropped) == 40
    before = out.read_bytes()
    assert regard(*arguments).stdout == done.stdout
    assert out.read_bytes() == before
    relative = ("--out", os.path.relpath(out), "--tag", "")
    untagged = regard(*arguments, *relative).stdout
    assert "tag:" not in untagged and f'files: "{out.resolve()}"' in untagged, "right wherever the YAML file lies"


def test_other_filters_need_no_new_translation(model: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    text, out = written(tmp_path), tmp_path / "pairs.tsv"
    arguments = ("backtranslate", model, text, "--out", out)
    assert regard(*arguments).returncode == 0
    parts = {path: path.stat().st_mtime_ns for path in (tmp_path / "pairs.parts").iterdir()}
    all_pairs = len(list(read_lines(out)))
    assert regard(*arguments, "--keep", 0.5).returncode == 0
    assert len(list(read_lines(out))) == round(0.5 * all_pairs)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "pairs.parts").iterdir()} == parts
    assert "was begun with" in error_line(*arguments, "--beam", 1)


def test_samples_are_reproducible(model: Path, tmp_path: Path) -> None:
    text = written(tmp_path)
    outputs = []
    for name, seed, part_lines in (("a", 3, 5), ("b", 3, 40), ("c", 4, 40)):
        sampling = ("--sample", "--top-k", 5, "--temperature", 1.2, "--seed", seed, "--part-lines", part_lines)
        done = regard("backtranslate", model, text, "--out", tmp_path / f"{name}.tsv", *sampling)
        assert done.returncode == 0, done.stderr
        outputs.append((tmp_path / f"{name}.tsv").read_bytes())
    assert outputs[0] == outputs[1] != outputs[2]


def test_mistakes_are_one_line(model: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    text, out = written(tmp_path), tmp_path / "pairs.tsv.gz"
    assert "no such file" in error_line("backtranslate", model, tmp_path / "none", "--out", out)
    assert "no model found" in error_line("backtranslate", tmp_path, text, "--out", out)
    assert "ends in .tsv" in error_line("backtranslate", model, text, "--out", tmp_path / "pairs.txt")
    assert "there is no folder" in error_line("backtranslate", model, text, "--out", tmp_path / "x" / "pairs.tsv")
    assert "keep must be at most 1" in error_line("backtranslate", model, text, "--out", out, "--keep", 2)
    assert "add --sample" in error_line("backtranslate", model, text, "--out", out, "--top-k", 5)
    assert "--beam has no effect" in error_line("backtranslate", model, text, "--out", out, "--sample", "--beam", 3)
    assert "one word without spaces" in error_line("backtranslate", model, text, "--out", out, "--tag", "a b")
    assert "give at most" in error_line("backtranslate", model, text, "--out", out, "--part-lines", 10**20)
    shutil.copytree(model, tmp_path / "model.parts")
    assert "is a model directory" in error_line("backtranslate", model, text, "--out", tmp_path / "model.tsv")
    assert "beam must be" in error_line("backtranslate", model, text, "--out", out, "--beam", 5000)
    utf_16 = tmp_path / "utf16.fr"
    utf_16.write_text("a b c\n", encoding="utf-16")
    assert "is UTF-16; convert it" in error_line("backtranslate", model, utf_16, "--out", out)
    latin = tmp_path / "latin.fr"
    latin.write_bytes("é à\n".encode("latin-1") * 3)
    assert "has no line to translate (invalid UTF-8 in line 1)" in error_line(
        "backtranslate", model, latin, "--out", out
    )
    (tmp_path / "mine.tsv").write_text("mine")
    assert "exists already" in error_line("backtranslate", model, text, "--out", tmp_path / "mine.tsv")
    assert (tmp_path / "mine.tsv").read_text() == "mine"


def test_a_model_of_the_other_direction_is_refused(
    model: Path, tmp_path: Path, error_line: Callable[..., str], capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pairs.tsv"
    english = written(tmp_path, "text.en")
    assert "needs a model that translates en to fr" in error_line("backtranslate", model, english, "--out", out)
    german = tmp_path / "text.de.gz"
    german.write_bytes(gzip.compress(english.read_bytes()))
    assert "seems to be de text" in regard("backtranslate", model, german, "--out", out).stderr


def test_other_kinds_of_models_are_refused(model: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    bundle = Bundle.load(model)
    Bundle(bundle.model, bundle.model_config, bundle.tokenizers, ("a", "b"), bundle.decode, "text").save(
        tmp_path / "text", ""
    )
    line = error_line("backtranslate", tmp_path / "text", written(tmp_path), "--out", tmp_path / "pairs.tsv")
    assert "not a translator, but a model for the task text" in line


def test_a_full_disk_is_one_line_and_loses_nothing(
    model: Path, tmp_path: Path, error_line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, out = written(tmp_path), tmp_path / "pairs.tsv"
    arguments = ("backtranslate", model, text, "--out", out, "--part-lines", 10)

    def fill(path: Path) -> None:
        if "part-000003" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("regard.files.sync_file", fill)
        line = error_line(*arguments)
    assert "part-000003.jsonl.gz: cannot be written (No space left on device;" in line
    assert len(list((tmp_path / "pairs.parts").glob("part-*"))) == 2 and not out.exists()
    assert regard(*arguments).returncode == 0
