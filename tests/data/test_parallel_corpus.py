import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from regard.data.corpus_report import CorpusReport
from regard.data.data_file import DataFile, fingerprint_files
from regard.data.pair_rules import FilterConfig
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError


def read(*paths: Path, **options: object) -> tuple[list[tuple[str, str]], CorpusReport]:
    with closing(Corpus(paths, **options).read()) as corpus:  # type: ignore[arg-type]
        return list(corpus), corpus.report


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_all_file_formats_give_the_same_pairs(tmp_path: Path) -> None:
    pairs = [("a cat", "un chat"), ("two", "deux"), ("é", "\u2028x\u00a0 y")]
    src = "".join(s + "\n" for s, _ in pairs).encode()
    tgt = "".join(t + "\n" for _, t in pairs).encode()
    tsv = "".join(f"{s}\t{t}\n" for s, t in pairs).encode()
    rows = "".join(json.dumps({"translation": {"en": s, "fr": t}}) + "\n" for s, t in pairs).encode()
    expected, _ = read(write(tmp_path / "a.en", src), write(tmp_path / "a.fr", tgt))
    assert expected == [("a cat", "un chat"), ("two", "deux"), ("é", "x y")]
    for suffix in ("", ".gz"):
        assert read(write(tmp_path / f"b.en{suffix}", src), write(tmp_path / f"b.fr{suffix}", tgt))[0] == expected
        assert read(write(tmp_path / f"c.tsv{suffix}", tsv))[0] == expected
        assert read(write(tmp_path / f"d.jsonl{suffix}", rows))[0] == expected
    swapped = [(t, s) for s, t in expected]
    assert read(tmp_path / "d.jsonl", langs=("fr", "en"))[0] == swapped


def test_bad_lines_are_left_out_counted_and_numbered(tmp_path: Path) -> None:
    src = [b"\xef\xbb\xbfone", b"two\r", b"th\xffree", b"fo\0ur", b"", b"six", b"x" * 6000, b"eight\r"]
    tgt = [b"un", b"deux", b"trois", b"quatre", b"cinq", b"  ", b"sept", b"huit"]
    pairs, report = read(write(tmp_path / "s", b"\n".join(src) + b"\n"), write(tmp_path / "t", b"\n".join(tgt) + b"\n"))
    assert pairs == [("one", "un"), ("two", "deux"), ("eight", "huit")]
    assert (report.lines, report.used) == (8, 3)
    assert report.problems == {
        "byte order mark removed": (1, 1),
        "carriage return removed": (2, 2),
        "invalid UTF-8": (1, 3),
        "NUL character": (1, 4),
        "empty side": (2, 5),
        "over 5,000 characters": (1, 7),
    }
    text = "\n".join(report.describe("data"))
    assert "3 pairs used of 8 lines" in text and "1 × invalid UTF-8, left out (first at line 3)" in text


def test_bad_tsv_and_jsonl_lines_are_counted(tmp_path: Path) -> None:
    pairs, report = read(write(tmp_path / "a.tsv", b"a\tb\nonly one\na\tb\tc\nc\td\n"))
    assert pairs == [("a", "b"), ("c", "d")]
    assert report.problems == {"not two tab-separated columns": (2, 2)}
    rows = [
        b'{"translation": {"en": "a", "fr": "b"}}',
        b"not json",
        b'{"translation": {"en": "a"}}',
        b"[" * 100_000,
        b'{"translation": {"en": "\\ud800", "fr": "b"}}',
    ]
    pairs, report = read(write(tmp_path / "a.jsonl", b"\n".join(rows)))
    assert pairs == [("a", "b")] and report.used == 1
    assert sorted(report.problems.values()) == [(1, 5), (3, 2)]
    odd = [b'{"translation": "ab"}', b'{"translation": {"en": null, "fr": {}}}', rows[0]]
    pairs, report = read(write(tmp_path / "b.jsonl", b"\n".join(odd)))
    assert pairs == [("a", "b")] and [count for count, _ in report.problems.values()] == [2]


def test_unequal_line_counts_are_both_in_the_message(tmp_path: Path) -> None:
    src, tgt = write(tmp_path / "s", b"a\nb\nc\n"), write(tmp_path / "t", b"a\nb\n")
    with pytest.raises(UserError, match=r"3 lines .* 2"):
        read(src, tgt)


def test_unusable_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    one = write(tmp_path / "a.txt", b"a\n")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"hello\n" * 1000)[:30])
    for paths, message in [
        ((one,), "two line-aligned files"),
        ((one, tmp_path / "none"), "no such file"),
        ((one, one, one), "one or two"),
        ((cut, one), "not a complete compressed file"),
        ((one, tmp_path), "is a folder"),
        ((Path("/dev/null"), one), "is a device"),
    ]:
        with pytest.raises(UserError, match=message):
            read(*paths)


def test_gzip_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    zipped, plain = tmp_path / "a", tmp_path / "b.gz"
    zipped.write_bytes(gzip.compress(b"one\ntwo\n"))
    plain.write_bytes(b"un\ndeux\n")
    assert read(zipped, plain)[0] == [("one", "un"), ("two", "deux")]
    for content in (b"", b"\x1f", b"a"):
        plain.write_bytes(content)
        assert list(DataFile(plain).lines()) == ([content] if content else [])


@contextmanager
def pipe(path: Path, content: bytes, chunk: int = 1 << 20) -> Iterator[Path]:
    """Make a pipe into which another thread writes the content, `chunk` bytes at a time."""

    def write_chunks() -> None:
        with path.open("wb", buffering=0) as file:
            for i in range(0, len(content), chunk):
                file.write(content[i : i + chunk])

    os.mkfifo(path)
    writer = Thread(target=write_chunks, daemon=True)
    writer.start()
    yield path
    writer.join(10)


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_pipes_are_read_like_files(chunk: int, tmp_path: Path) -> None:
    src, tgt = b"one\ntwo\n", gzip.compress(b"un\ndeux\n")
    expected = [("one", "un"), ("two", "deux")]
    with pipe(tmp_path / "p", src, chunk) as p, pipe(tmp_path / "q", tgt, chunk) as q:
        from_pipes = Corpus((p, q)).read()
    with closing(from_pipes):
        assert list(from_pipes) == expected
    p.unlink()
    q.unlink()
    with closing(Corpus((write(p, src), write(q, tgt))).read()) as from_files:
        assert from_files.fingerprint == from_pipes.fingerprint
    with pipe(tmp_path / "tsv", b"one\tun\ntwo\tdeux\n", chunk) as single:
        assert read(single)[0] == expected


def test_the_names_of_two_files_do_not_matter(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.en", b"x\n"), write(tmp_path / "b.fr", b"y\n")
    c, d = write(tmp_path / "c", b"x\n"), write(tmp_path / "d", b"y\n")
    with closing(Corpus((a, b)).read()) as named, closing(Corpus((c, d)).read()) as other:
        assert named.fingerprint == other.fingerprint


def test_the_fingerprint_depends_on_content_order_and_options(tmp_path: Path) -> None:
    def fingerprint(*paths: Path, **options: object) -> str:
        with closing(Corpus(paths, **options).read()) as corpus:  # type: ignore[arg-type]
            return corpus.fingerprint

    a, b = write(tmp_path / "a", b"x\n"), write(tmp_path / "b", b"y\n")
    before = fingerprint(a, b)
    assert before == fingerprint(a, b)
    assert len({before, fingerprint(b, a), fingerprint(a, b, max_chars=9)}) == 3
    assert before == fingerprint_files([a, b], " None 5000"), "hashed while it is read, or by itself: the same"
    write(b, b"z\n")
    assert fingerprint(a, b) != before


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_hash_covers_all_bytes_on_disk(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a{suffix}", b"line\n" * 100_000)
    file = DataFile(path)
    assert sum(1 for _ in file.lines()) == 100_000
    assert file.digest() == hashlib.sha256(path.read_bytes()).digest()
    unread = DataFile(path)
    with unread.open() as content:
        content.read(10)
    assert unread.digest() == file.digest(), "the rest is read when the file is closed"


def test_pairs_can_be_read_again_in_any_order(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", b"a b\tc\n\nbad\n\xc3\xa9\td  e\r\nf\tg\n")
    with closing(Corpus((tsv,)).read()) as corpus:
        assert (len(corpus), corpus.name) == (3, "a.tsv")
        assert [corpus[2], corpus[0], corpus[1]] == [("f", "g"), ("a b", "c"), ("é", "d e")]
        assert list(corpus) == list(corpus) == [corpus[i] for i in range(3)]
        assert list(corpus.lines) == [1, 4, 5], "lines that are left out count"


def test_filtered_pairs_are_counted_and_keep_their_lines(tmp_path: Path) -> None:
    lines = [f"{'a' * (20 + i % 30)}{i}\t{'b' * (20 + i % 30)}{i}" for i in range(300)]
    lines[100:100] = ["", lines[7], "x\t" + "y" * 90]
    path = write(tmp_path / "a.tsv", "".join(f"{line}\n" for line in lines).encode())
    plain, filtered = Corpus((path,)).read(), Corpus((path,), filter=FilterConfig()).read()
    assert len(plain) == 302 and len(filtered) == 300 == len(filtered.table)
    assert filtered.report.problems["duplicate of an earlier pair"] == (1, 102)
    assert filtered.report.problems["extreme length ratio"] == (1, 103)
    assert (filtered.report.lines, filtered.report.used) == (303, 300)
    assert [lines[n - 1] for n in filtered.lines] == [f"{source}\t{target}" for source, target in filtered]
    assert [f"{source}\t{target}" for source, target in [filtered[0], filtered[150], filtered[299]]] == [
        lines[filtered.lines[row] - 1] for row in (0, 150, 299)
    ]
    off = Corpus((path,), filter=FilterConfig(drop_duplicates=False, drop_extreme_ratios=False)).read()
    assert list(off) == list(plain)
    assert len({plain.fingerprint, filtered.fingerprint, off.fingerprint}) == 3


def test_a_cell_of_a_csv_may_have_several_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'a,"b\nc"\nd,e\n')
    assert read(path)[0] == [("a", "b c"), ("d", "e")]
