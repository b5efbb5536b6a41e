"""Parquet files and folders of `datasets` give the same pairs as a TSV, and damaged ones are one line."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from regard.data import arrow_tables
from regard.data.pair_readers import is_pair_file, named_languages
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError

PAIRS = [(f"a cat {i}", f"un chât {i}") for i in range(50)]
PAIRS[20:23] = [("two\nlines", "  deux  lignes "), ("", "vide"), ("x" * 6000, "long")]


def read(path: Path, langs: tuple[str, str] | None = None) -> tuple[list[tuple[str, str]], dict[str, tuple[int, int]]]:
    with closing(Corpus((path,), langs).read()) as corpus:
        return list(corpus), corpus.report.problems


@pytest.fixture
def expected(tmp_path: Path) -> tuple[list[tuple[str, str]], dict[str, tuple[int, int]]]:
    """What a JSONL with the same pairs gives"""
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"translation": {"en": s, "fr": t}}) + "\n" for s, t in PAIRS))
    pairs, problems = read(path)
    assert len(pairs) == 48 and len(problems) == 2
    return pairs, problems


def columns(**more: list[Any]) -> pa.Table:
    return pa.table({"id": list(range(50)), "en": [s for s, _ in PAIRS], "fr": [t for _, t in PAIRS], **more})


def translations() -> pa.Table:
    return pa.table({"id": ["x"] * 50, "translation": [{"en": s, "fr": t} for s, t in PAIRS]})


def write_stream(path: Path, table: pa.Table) -> None:
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=7)


def save_to_disk(folder: Path, table: pa.Table) -> Path:
    """Write a table as `datasets` does, in two files."""
    folder.mkdir(parents=True)
    names = [f"data-0000{i}-of-00002.arrow" for i in range(2)]
    write_stream(folder / names[0], table.slice(0, 20))
    write_stream(folder / names[1], table.slice(20))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


@pytest.mark.parametrize("table", [columns(), translations()], ids=["columns", "translation"])
def test_all_files_give_the_same_pairs(table: pa.Table, tmp_path: Path, expected: Any) -> None:
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=11)
    write_stream(tmp_path / "a.arrow", table)
    with ipc.new_file(tmp_path / "b.arrow", table.schema) as file:
        file.write_table(table)
    (tmp_path / "folder").mkdir()
    parquet.write_table(table.slice(0, 30), tmp_path / "folder" / "train-00000-of-00002.parquet")
    parquet.write_table(table.slice(30), tmp_path / "folder" / "train-00001-of-00002.parquet")
    paths = [tmp_path / name for name in ("a.parquet", "a.arrow", "b.arrow", "folder")]
    for path in (*paths, save_to_disk(tmp_path / "saved", table)):
        assert read(path) == expected and is_pair_file(path) and named_languages(path) == ("en", "fr")
        swapped = [(target, source) for source, target in expected[0]]
        assert read(path, ("fr", "en"))[0] == swapped


def test_languages_choose_among_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(columns(de=[f"eine Katze {i}" for i in range(50)]), path)
    with pytest.raises(UserError, match=r"has several columns of text \(en, fr, de\); name two"):
        read(path)
    assert named_languages(path) == ("en", "fr"), "so that a translator finds its languages in it"
    assert read(path, ("de", "en"))[0][0] == ("eine Katze 0", "a cat 0")
    with pytest.raises(UserError, match=r"no columns of text de and it; it has id \(int64\), en \(string\)"):
        read(path, ("de", "it"))
    parquet.write_table(columns().select(["en", "fr"]).rename_columns(["source", "target"]), path)
    assert read(path, ("en", "fr"))[0][0] == ("a cat 0", "un chât 0"), "the codes are not names of columns"
    assert named_languages(path) is None


def test_missing_values_and_bad_bytes_are_counted(tmp_path: Path) -> None:
    bad = pa.array([b"a", b"\xff", b"c\0", b"d"]).cast(pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"en": bad, "fr": ["a", "b", "c", None]}), tmp_path / "a.parquet")
    pairs, problems = read(tmp_path / "a.parquet")
    assert pairs == [("a", "a")]
    assert problems == {"invalid UTF-8": (1, 2), "NUL character": (1, 3), "empty side": (1, 4)}


def test_damaged_files_and_wrong_columns_are_one_line(tmp_path: Path) -> None:
    good, path = tmp_path / "good.parquet", tmp_path / "a.parquet"
    parquet.write_table(columns(), good)
    write_stream(tmp_path / "good.arrow", columns())
    for suffix, content in ((".parquet", good.read_bytes()), (".arrow", (tmp_path / "good.arrow").read_bytes())):
        for damaged in (content[: len(content) // 2], b"", b"no table", bytes(100) + content[100:]):
            path = tmp_path / f"a{suffix}"
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=f"a{suffix}: not a complete {suffix} file") as error:
                read(path)
            assert "\n" not in str(error.value)
            named_languages(path)  # must not fail: the reader says what is wrong
    for table in (columns().select(["id", "en"]), columns().select([]), pa.table({"translation": ["x"]})):
        parquet.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(UserError, match="no two columns of text; it has"):
            read(tmp_path / "a.parquet")


def test_folders_that_are_no_corpus_are_refused(tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"folder without \.parquet files"):
        read(empty)
    save_to_disk(tmp_path / "all" / "train", columns())
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(UserError, match=r"several splits \(train\); name one of its folders"):
        read(tmp_path / "all")
    for split in ("train", "test"):
        parquet.write_table(columns(), empty / f"{split}-00000-of-00001.parquet")
    with pytest.raises(UserError, match=r"several splits \(test, train\); name a file"):
        read(empty)
    (tmp_path / "all" / "train" / "state.json").write_text("{")
    with pytest.raises(UserError, match=r"state\.json: damaged"):
        read(tmp_path / "all" / "train")


def test_without_pyarrow_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(columns(), tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[data\]'"):
        read(tmp_path / "a.parquet")


def test_every_file_of_a_folder_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    folder = save_to_disk(tmp_path / "saved", columns())
    before = Corpus((folder,)).read().fingerprint
    assert Corpus((folder,)).read().fingerprint == before
    write_stream(arrow_tables.data_files(folder)[1], columns().slice(21))
    assert Corpus((folder,)).read().fingerprint != before
