"""Files of pairs give the same pairs in every format, and bad ones are refused in one line."""

import io
import lzma
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from regard.data.corpus_report import CorpusReport
from regard.data.data_file import DataFile
from regard.data.pair_readers import named_languages
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError

PAIRS = [
    ("a cat & a dog", "un chat et un chien"),
    ('he said "no", twice', "il a dit « non »"),
    ("été <b>", "summer 🙂"),
]


def read(path: Path, langs: tuple[str, str] | None = None) -> tuple[list[tuple[str, str]], CorpusReport]:
    with closing(Corpus((path,), langs).read()) as corpus:
        return list(corpus), corpus.report


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def tmx(pairs: list[tuple[str, str]]) -> str:
    units = "".join(
        f'<tu><prop>x</prop><tuv xml:lang="fr"><seg>{escape(t)}</seg></tuv>'
        f'<tuv xml:lang="en-US"><seg>{escape(s)}</seg></tuv></tu>'
        for s, t in pairs
    )
    head = '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="en"/>'
    return f"{head}<body>{units}</body></tmx>"


def xliff(pairs: list[tuple[str, str]]) -> str:
    units = "".join(
        f"<trans-unit id='{i}'><source>{escape(s)}</source><target>{escape(t)}</target>"
        "<alt-trans><source>wrong</source><target>wrong</target></alt-trans></trans-unit>"
        for i, (s, t) in enumerate(pairs)
    )
    return (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        f'<file source-language="en" target-language="fr"><body>{units}</body></file></xliff>'
    )


def xliff2(pairs: list[tuple[str, str]]) -> str:
    units = "".join(
        f"<unit id='u{i}'><notes><note>n</note></notes><segment><source>{escape(s)}</source>"
        f"<target>{escape(t)}</target></segment></unit>"
        for i, (s, t) in enumerate(pairs)
    )
    return (
        '<xliff version="2.0" srcLang="en" trgLang="fr" xmlns="urn:oasis:names:tc:xliff:document:2.0">'
        f"<file id='f'>{units}</file></xliff>"
    )


def csv_rows(pairs: list[tuple[str, str]]) -> str:
    quoted = [[f'"{text.replace(chr(34), chr(34) * 2)}"' for text in pair] for pair in pairs]
    return "source,target\r\n" + "".join(",".join(row) + "\r\n" for row in quoted)


@pytest.mark.parametrize(
    ("name", "make"), [("a.tmx", tmx), ("b.xlf", xliff), ("c.xliff", xliff2), ("d.csv", csv_rows), ("E.TMX", tmx)]
)
@pytest.mark.parametrize("compress", [None, lzma.compress, zstandard.compress])
def test_every_format_gives_the_pairs(
    name: str,
    make: Callable[[list[tuple[str, str]]], str],
    compress: Callable[[bytes], bytes] | None,
    tmp_path: Path,
) -> None:
    content = make(PAIRS).encode()
    suffix = {None: "", lzma.compress: ".xz", zstandard.compress: ".zst"}[compress]
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(compress(content) if compress else content)
    pairs, report = read(path)
    assert pairs == PAIRS and report.used == report.lines == len(PAIRS)
    if name != "d.csv":
        assert read(path, ("fr", "en"))[0] == [(t, s) for s, t in PAIRS]


@pytest.mark.parametrize(
    ("header", "is_left_out"), [("en,fr", True), ("EN,de", True), ("en,en", False), ("a,b", False)]
)
def test_language_codes_in_the_first_row_of_a_csv_are_left_out(header: str, is_left_out: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\nthe cat,le chat\nen,fr\n")
    assert len(read(path)[0]) == (2 if is_left_out else 3)


def moses_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_an_archive_of_opus_gives_the_pairs(tmp_path: Path) -> None:
    src, tgt = ("".join(pair[i] + "\n" for pair in PAIRS) for i in range(2))
    members = {"README": "read me", "LICENSE": "", "T.fr-en.xml": "<x/>", "T.fr-en.en": src, "T.fr-en.fr": tgt}
    path = moses_zip(tmp_path / "fr-en.txt.zip", members)
    assert read(path)[0] == [(t, s) for s, t in PAIRS], "the archive is fr-en"
    assert read(path, ("en", "fr"))[0] == PAIRS
    with pytest.raises(UserError, match=r"no two members of one name that end in \.en and \.de"):
        read(path, ("en", "de"))
    cut = tmp_path / "cut.zip"
    cut.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="not a complete zip archive"):
        read(cut)


def test_mark_up_inside_a_segment_is_left_out_and_text_in_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    segment = "click <bpt i='1'>&lt;b&gt;</bpt>here<ept i='1'>&lt;/b&gt;</ept> <hi>now</hi>"
    path.write_text(tmx([("SEGMENT", "ici")]).replace("SEGMENT", segment))
    assert read(path)[0] == [("click here now", "ici")]


def test_units_without_both_languages_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(xliff(PAIRS).replace("<target>summer 🙂</target>", ""))
    pairs, report = read(path)
    assert pairs == PAIRS[:2] and report.problems == {"no segment in one of the languages": (1, 3)}


BOMB = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><tmx><body>&b;</body></tmx>'
OUTSIDE = '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx><body>&x;</body></tmx>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB.encode(), "declares entities"),
        (OUTSIDE.encode(), "declares entities"),
        (tmx(PAIRS).encode()[:-30], "not well-formed XML at line 1"),
        (b"\xff\xfe\x00garbage", "not well-formed XML"),
        (b"<?xml version='1.0' encoding='nonsense'?><tmx/>", "not well-formed XML|unknown encoding"),
        (b"<tmx>\xff</tmx>", "not well-formed XML"),
        (b"", "not well-formed XML"),
    ],
)
def test_files_that_are_not_safe_or_damaged_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("compress", [lzma.compress, zstandard.compress])
def test_truncated_and_joined_files_are_recognised(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "a"
    lines = b"".join(b"line %d\n" % i for i in range(50_000))
    path.write_bytes(compress(lines) + compress(b"more\n"))
    assert b"\n".join(DataFile(path).lines()) + b"\n" == lines + b"more\n"
    path.write_bytes(compress(lines)[:-7])
    with pytest.raises(UserError, match="not a complete compressed file"):
        list(DataFile(path).lines())


def test_long_segments_and_deep_elements_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    long = io.StringIO()
    long.write('<tmx><body><tu><tuv xml:lang="en"><seg>')
    long.write("x" * 3_000_000)
    long.write('</seg></tuv><tuv xml:lang="fr"><seg>y</seg></tuv></tu></body></tmx>')
    path.write_text(long.getvalue())
    pairs, report = read(path)
    assert pairs == [] and list(report.problems) == ["over 5,000 characters"]


def test_the_languages_of_a_file_are_found(tmp_path: Path) -> None:
    src, tgt = ("".join(pair[i] + "\n" for pair in PAIRS) for i in range(2))
    texts = {"a.tmx": tmx(PAIRS), "a.xlf": xliff(PAIRS), "b.xliff": xliff2(PAIRS)}
    texts["a.jsonl"] = '{"translation": {"en": "a", "fr": "b"}}\n'
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert named_languages(tmp_path / name) == ("en", "fr"), name
    assert named_languages(moses_zip(tmp_path / "a.zip", {"a.en": src, "a.fr": tgt})) == ("en", "fr")
    for name, text in {"c.tmx": BOMB, "c.jsonl": "[", "c.tsv": "a\tb", "c.zip": "x"}.items():
        (tmp_path / name).write_text(text)
        assert named_languages(tmp_path / name) is None, name
