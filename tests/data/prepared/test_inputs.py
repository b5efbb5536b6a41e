"""Names that a user gives for a preparation: files, patterns and URLs."""

import gzip
from pathlib import Path

import fsspec
import pytest

from regard.data.parallel_corpus import Corpus
from regard.data.prepared.inputs import find_corpora
from regard.errors import UserError


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(f"{name}\t{name}\n" if ".tsv" in name else f"{name}\n")


def names(corpora: list[Corpus]) -> list[tuple[str, ...]]:
    return [tuple(path.name for path in corpus.paths) for corpus in corpora]


def test_two_patterns_of_line_aligned_files_are_paired_by_name(tmp_path: Path) -> None:
    write(tmp_path, "p2.en", "p1.en", "p1.de", "p2.de")
    found = find_corpora([f"{tmp_path}/p*.en", f"{tmp_path}/p*.de"], None)
    assert names(found) == [("p1.en", "p1.de"), ("p2.en", "p2.de")]


def test_any_number_of_files_of_pairs_can_be_given(tmp_path: Path) -> None:
    write(tmp_path, "b.tsv", "a.tsv", "c.tsv.gz")
    found = find_corpora([f"{tmp_path}/[ab].tsv", str(tmp_path / "c.tsv.gz")], None)
    assert names(found) == [("a.tsv",), ("b.tsv",), ("c.tsv.gz",)]


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    write(tmp_path, "a[1].tsv", "a1.tsv")
    assert names(find_corpora([str(tmp_path / "a[1].tsv")], None)) == [("a[1].tsv",)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["*.fr", "*.de"], r"\*\.fr: no file has such a name"),
        (["p*.en", "p1.de"], "stands for 2 files, but .* for 1"),
        (["p1.en", "p1.de", "p2.en"], "p1.en: give two line-aligned files"),
        (["p1.en", "missing.de"], "missing.de: no such file"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, given: list[str], message: str) -> None:
    write(tmp_path, "p1.en", "p2.en", "p1.de")
    with pytest.raises(UserError, match=message):
        find_corpora([str(tmp_path / name) for name in given], None)


def test_remote_files_are_read_like_local_ones(tmp_path: Path) -> None:
    lines = b"one\teins\ntwo\tzwei\n"
    (tmp_path / "a.tsv").write_bytes(lines)
    system = fsspec.filesystem("memory")
    system.pipe({"/corpus/a.tsv": lines, "/corpus/b.tsv.gz": gzip.compress(lines)})
    found = find_corpora(["memory://corpus/*.tsv*"], None)
    assert names(found) == [("a.tsv",), ("b.tsv.gz",)]
    for corpus in (*found, Corpus((tmp_path / "a.tsv",))):
        parsed = corpus.read()
        assert list(parsed) == [("one", "eins"), ("two", "zwei")]
        parsed.close()


def test_remote_archives_are_copied_to_be_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"en": ["one"], "de": ["eins"]}), tmp_path / "a.parquet")
    fsspec.filesystem("memory").pipe("/corpus/a.parquet", (tmp_path / "a.parquet").read_bytes())
    [corpus] = find_corpora(["memory://corpus/a.parquet"], None)
    parsed = corpus.read()
    assert list(parsed) == [("one", "eins")]
    parsed.close()


@pytest.mark.parametrize("url", ["memory://corpus/missing.tsv", "nothing://corpus/a.tsv"])
def test_remote_files_that_cannot_be_read_are_named(url: str) -> None:
    with pytest.raises(UserError, match=url):
        find_corpora([url], None)[0].read()
