"""`regard data prepare` and training on what it wrote."""

import shutil
from pathlib import Path

import pytest

from tests.cli.command import TOY, failed_in_one_line, regard, toy_files

SHORT = ["--set", "train.steps=30", "--set", "valid.every=15", "--set", "valid.sentences=10"]


def lines_of(log: str, start: str) -> list[str]:
    return [line for line in log.splitlines() if start in line]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return toy_files(tmp_path_factory.mktemp("toy"), n=600)


@pytest.fixture(scope="module")
def prepared(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared") / "folder"
    done = regard("data", "prepare", *files[:2], "--out", out, *TOY, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "pairs used of 600 lines" in done.stdout and f"regard train {out} --recipe tiny --out RUN" in done.stdout
    return out


def test_a_model_trained_on_prepared_data_is_the_model_trained_on_the_files(
    files: list[Path], prepared: Path, tmp_path: Path
) -> None:
    runs = [tmp_path / name for name in ("files", "prepared")]
    for train, out in zip((files[:2], [prepared]), runs, strict=True):
        done = regard("train", *train, "--valid", *files[2:], "--out", out, *TOY, *SHORT)
        assert done.returncode == 0, done.stderr
    weights, config, words = (
        [(run / name).read_bytes() for run in runs] for name in ("model.safetensors", "config.yaml", "words.tsv")
    )
    assert weights[0] == weights[1] and config[0] == config[1] and words[0] == words[1]


def test_the_recipe_auto_trains_on_prepared_data(prepared: Path, tmp_path: Path) -> None:
    sizes = ("n_layers=1", "d_model=32", "n_heads=2", "d_ff=32")
    options = [word for size in sizes for word in ("--set", f"model.{size}")]
    options += ["--set", "train.steps=2", "--set", "valid.sentences=5", "--set", "train.r_drop=0"]
    done = regard("train", prepared, "--out", tmp_path / "run", *options)
    assert done.returncode == 0, done.stderr
    assert "26 pairs held out of the training data" in done.stderr
    assert f"that of {prepared}" in done.stderr


def test_a_damaged_byte_is_found_by_verify(prepared: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(prepared, tmp_path / "copy")
    assert "every file is as it was written" in regard("verify", copy).stdout
    path = copy / "shards" / "00000" / "tgt.ids"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    done = regard("verify", copy)
    assert "tgt.ids: changed or damaged" in done.stdout and "1 problem" in failed_in_one_line(done)


def test_mistakes_are_one_line(files: list[Path], prepared: Path, toy_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "no such file" in failed_in_one_line(regard("data", "prepare", tmp_path / "a.tsv", "--out", out))
    other = ["--set", "tokenizer.kind=char"]
    assert "other files or with other options" in failed_in_one_line(
        regard("data", "prepare", *files[:2], "--out", prepared, *TOY, *other)
    )
    assert "holds other files" in failed_in_one_line(regard("data", "prepare", *files[:2], "--out", files[0].parent))
    assert "prepared with tokenizer.kind=word" in failed_in_one_line(
        regard("train", prepared, "--out", tmp_path / "run", *TOY, *other)
    )
    assert "leave --new-tokenizer out" in failed_in_one_line(
        regard("train", prepared, "--out", tmp_path / "run", "--init", toy_run, "--new-tokenizer", *TOY)
    )
    assert "without --alignments" in failed_in_one_line(
        regard("train", prepared, "--out", tmp_path / "run", "--alignments", files[0], *TOY)
    )
    assert "cannot connect" in failed_in_one_line(
        regard("data", "prepare", *files[:2], "--out", out, *TOY, "--ray", "127.0.0.1:9")
    )
    (tmp_path / "empty.tsv").touch()
    assert "no usable pair" in failed_in_one_line(regard("data", "prepare", tmp_path / "empty.tsv", "--out", out))
    (tmp_path / "cut" / "work").mkdir(parents=True)
    assert "not completely prepared" in failed_in_one_line(
        regard("train", tmp_path / "cut", "--out", tmp_path / "run", *TOY)
    )
