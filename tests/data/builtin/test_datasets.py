import json
from pathlib import Path

import numpy as np
import pytest

from regard.data.builtin.datasets import DatasetOptions, write_dataset
from regard.data.builtin.shapes import IMAGE_SIZE, generate_scenes
from regard.data.image_store import read_captions
from regard.data.images import load_image
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError
from tests.cli.command import failed_in_one_line, regard


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_grammar_has_files_of_sentences_and_alignments(tmp_path: Path) -> None:
    write_dataset("grammar", tmp_path / "g", DatasetOptions(size=100, direction="fr-en"))
    pairs = list(Corpus((tmp_path / "g" / "train.fr", tmp_path / "g" / "train.en")).read())
    assert len(pairs) == 100
    for (src, tgt), row in zip(pairs, lines(tmp_path / "g" / "train.align"), strict=True):
        links = [tuple(map(int, link.split("-"))) for link in row.split()]
        assert {i for i, _ in links} == set(range(len(src.split())))  # every source word has a link
        assert {j for _, j in links} <= set(range(len(tgt.split())))
    assert lines(tmp_path / "g" / "test.en")[0] == "the green witch arrived"
    assert lines(tmp_path / "g" / "test.align")[0] == "0-0 1-2 2-1 3-3 4-3"  # la sorcière verte est arrivée


def test_toy_lines_have_the_requested_lengths_and_disjoint_splits(tmp_path: Path) -> None:
    out = tmp_path / "toy"
    done = regard(
        *("data", "reverse", out, "--size", 300, "--min-len", 2, "--max-len", 5),
        *("--test-min-len", 6, "--test-max-len", 9),
    )
    assert done.returncode == 0, done.stderr
    assert str(out / "train.src") in done.stdout
    sources = {split: lines(out / f"{split}.src") for split in ("train", "valid", "test")}
    assert {split: len(rows) for split, rows in sources.items()} == {"train": 300, "valid": 30, "test": 30}
    assert {len(row.split()) for row in sources["train"]} == {2, 3, 4, 5}
    assert {len(row.split()) for row in sources["test"]} <= {6, 7, 8, 9}
    assert not set(sources["train"]) & set(sources["valid"])
    assert lines(out / "test.tgt") == [" ".join(reversed(row.split())) for row in sources["test"]]


def test_shapes_are_read_back_as_they_were_generated(tmp_path: Path) -> None:
    write_dataset("shapes", tmp_path, DatasetOptions(size=20, seed=3))
    drawn = generate_scenes({"train": 20, "valid": 2, "test": 2}, seed=3)
    for split, rows in drawn.items():
        captions = read_captions(tmp_path / f"{split}.tsv")
        assert [caption for _, caption in captions] == [scene.caption for scene in rows]
        for (path, _), scene in zip(captions, rows, strict=True):
            assert np.array_equal(load_image(path, IMAGE_SIZE), scene.image)
    regions = [json.loads(row) for row in lines(tmp_path / "regions.jsonl")]
    for row, scene in zip(regions, drawn["test"], strict=True):
        assert [(r["word"], tuple(r["box"])) for r in row["regions"]] == list(scene.regions)


@pytest.mark.parametrize("name", ["grammar", "sort", "shapes", "stories"])
def test_the_same_options_give_the_same_bytes_and_replace_the_files(tmp_path: Path, name: str) -> None:
    write_dataset(name, tmp_path / "a", DatasetOptions(size=20))
    first = contents(tmp_path / "a")
    write_dataset(name, tmp_path / "a", DatasetOptions(size=20))
    assert contents(tmp_path / "a") == first
    write_dataset(name, tmp_path / "b", DatasetOptions(size=20, seed=2))
    assert contents(tmp_path / "b") != first


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    line = failed_in_one_line(regard("data", "copy", tmp_path))
    assert "thesis.txt" in line and "empty folder" in line
    assert contents(tmp_path) == {"thesis.txt": b"mine"}
    (tmp_path / "own" / "pictures").mkdir(parents=True)
    (tmp_path / "own" / "pictures" / "me.png").write_bytes(b"x")
    with pytest.raises(UserError, match="pictures"):
        write_dataset("shapes", tmp_path / "own", DatasetOptions(size=10))
    assert (tmp_path / "own" / "pictures" / "me.png").is_file()


def test_invalid_options_give_one_line(tmp_path: Path) -> None:
    for options, word in (
        (["nothing", tmp_path / "x"], "grammar"),
        (["stories", tmp_path / "x", "--min-len", 4], "--min-len"),
        (["grammar", tmp_path / "x", "--max-len", 9], "--max-len"),
        (["stories", tmp_path / "x", "--size", 0], "--size 0"),
        (["copy", tmp_path / "x", "--min-len", 9, "--max-len", 8], "--min-len"),
        (["copy", tmp_path / "x", "--max-len", 2**31], "10,000"),
        (["copy", tmp_path / "x", "--min-len", 1, "--max-len", 1], "longer"),
    ):
        assert word in failed_in_one_line(regard("data", *options))
    assert not (tmp_path / "x").exists()
