import gzip
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import text_files, text_store
from regard.data.batch_order import BatchConfig
from regard.data.corpus_report import CorpusReport
from regard.data.data_file import DataFile
from regard.data.text_batches import TextBatches
from regard.data.text_files import TextFiles, read_pieces
from regard.data.text_store import TextStore, open_text, text_store_from
from regard.errors import UserError
from regard.text.tokenizer import (
    ByteTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
    train_tokenizer,
)
from regard.text.vocab import BOS, EOS, SPECIALS

ODD = "  if x:\n\treturn  'é 😀'\n\n\n▁the  cat▁ \u00a0\u2028 sees\r the   witch   \n end"
FIRST = len(SPECIALS)


def opened(paths: Sequence[Path], tokenizer: Tokenizer, folder: Path) -> TextStore:
    with closing(TextFiles(tuple(paths)).read()) as text:
        return open_text(text, tokenizer, folder)


def trained(kind: str, text: str = ODD) -> Tokenizer:
    lines = text.splitlines(keepends=True) * 20
    return train_tokenizer(lines, TokenizerConfig.parse({"kind": kind, "vocab_size": 320, "lossless": True}))


# ---- tokenizers


@pytest.mark.parametrize("kind", ["bytes", "char", "bpe", "unigram"])
def test_a_lossless_tokenizer_restores_every_character(kind: str, tmp_path: Path) -> None:
    tokenizer = trained(kind)
    TokenizerPair(tokenizer, tokenizer).save(tmp_path)
    loaded = TokenizerPair.load(tmp_path).src
    assert loaded.to_bytes() == tokenizer.to_bytes() and type(loaded) is type(tokenizer)
    assert tokenizer.tokens(range(FIRST)) == list(SPECIALS)
    unseen = [] if kind == "char" else ["日本\n\n", "\t\t x ", "<s>\n▁▁", "zz\u200d\u0001\n"]
    for text in [ODD, *ODD.splitlines(keepends=True), " ", "\n", "", *unseen]:
        [ids] = loaded.encode([text])
        assert all(FIRST <= i < loaded.size for i in ids)
        assert loaded.decode([BOS, *ids, EOS]) == text
    lines = loaded.encode(ODD.splitlines(keepends=True))
    assert loaded.decode([i for ids in lines for i in ids]) == ODD, "lines can be encoded separately"


def test_a_tokenizer_is_lossless_only_if_the_option_is_set() -> None:
    texts = ["the  cat", "the witch"] * 20
    plain = train_tokenizer(texts, TokenizerConfig(vocab_size=280))
    assert isinstance(plain, SentencePieceTokenizer) and not plain.lossless
    assert plain.decode(plain.encode(["the  cat"])[0]) == "the cat"
    lossless = train_tokenizer(texts, TokenizerConfig(vocab_size=280, lossless=True))
    assert isinstance(lossless, SentencePieceTokenizer) and lossless.lossless
    for options in ({"kind": "word"}, {"byte_fallback": False}, {"dropout": 0.1}, {"kind": "unigram", "alpha": 0.1}):
        with pytest.raises(UserError, match="tokenizer"):
            train_tokenizer(texts, TokenizerConfig.parse({"lossless": True, **options}))


def test_bytes_are_displayed_and_incomplete_characters_are_replaced() -> None:
    tokenizer = ByteTokenizer()
    [ids] = tokenizer.encode(["é a\n"])
    assert tokenizer.size == 262
    assert tokenizer.tokens(ids) == ["<0xC3>", "<0xA9>", " ", "a", "<0x0A>"]
    assert tokenizer.decode(ids[1:]) == "\ufffd a\n"


# ---- files


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("kind", ["bytes", "char", "bpe"])
def test_files_become_one_sequence_that_is_found_again(kind: str, tmp_path: Path) -> None:
    tokenizer = trained(kind)
    content = ODD.encode()
    paths = [write(tmp_path / "a.txt", content), write(tmp_path / "b.txt", b"the cat\n")]
    store = opened(paths, tokenizer, tmp_path / "cache")
    assert isinstance(store.ids, np.memmap) and store.ids.dtype == np.uint16
    [end, last] = np.nonzero(store.ids == EOS)[0]
    assert last == len(store) - 1
    assert tokenizer.decode(store.ids[:end].tolist()) == ODD
    assert tokenizer.decode(store.ids[end:].tolist()) == "the cat\n"
    assert store.n_bytes == len(content) + 8 and store.vocab_size == tokenizer.size
    assert store.report == CorpusReport(ODD.count("\n") + 2, ODD.count("\n") + 2, {}, "lines")

    [folder] = (tmp_path / "cache" / "corpora").iterdir()
    before = folder.stat().st_mtime_ns
    again = opened(paths, tokenizer, tmp_path / "cache")
    assert (again.fingerprint, again.n_bytes, again.report) == (store.fingerprint, store.n_bytes, store.report)
    assert folder.stat().st_mtime_ns == before
    assert opened(paths[::-1], tokenizer, tmp_path / "cache").fingerprint != store.fingerprint

    packed = opened([write(tmp_path / "a.txt.gz", content), paths[1]], tokenizer, tmp_path / "cache")
    memory = text_store_from([ODD, "the cat\n"], tokenizer)
    for other in (packed, memory):
        assert np.array_equal(other.ids, store.ids)
        assert (other.n_bytes, other.report) == (store.n_bytes, store.report)
    batch = TextBatches(store, BatchConfig(tokens=60), 1, context=5).batch(0, 0)
    assert batch.tgt_out.dtype == torch.int64


def test_bad_lines_are_left_out_counted_and_numbered(tmp_path: Path) -> None:
    first = write(tmp_path / "a", b"\xef\xbb\xbfone \r\ntw\xffo\n\nfo\0ur\nfi\rve\r\n")
    second = write(tmp_path / "b", b"\xef\xbb\xbfsix\nse\xffven")
    store = opened([first, second], ByteTokenizer(), tmp_path)
    assert ByteTokenizer().decode(store.ids.tolist()) == "one \n\nfi\rve\nsix\n"
    assert store.n_bytes == len(store) - 2
    assert (store.report.lines, store.report.used) == (7, 4)
    assert store.report.problems == {
        "byte order mark removed": (2, 1),
        "carriage return removed": (2, 1),
        "invalid UTF-8": (2, 2),
        "NUL character": (1, 4),
    }
    described = "\n".join(store.report.describe("text"))
    assert "4 lines used of 7 lines" in described and "2 × invalid UTF-8, left out (first at line 2)" in described


@pytest.mark.parametrize("unit", ["€", "word ", "word \r ", "x", "😀 é\r"])
def test_a_long_line_is_read_in_pieces(unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_PIECE", 16)
    monkeypatch.setattr(text_store, "_CHUNK", 40)
    text = unit * 100 + "\r\n" + "z" * 15 + "\r\nend\n" + "a " + "y" * 50
    path = write(tmp_path / "long", text.encode())
    report = CorpusReport()
    pieces = list(read_pieces(DataFile(path), report))
    assert "".join(pieces) == text.replace("\r\n", "\n")
    assert max(len(piece.encode()) for piece in pieces) <= 16 and (report.lines, report.used) == (4, 4)
    assert report.problems == {"carriage return removed": (2, 1)}
    store = opened([path], ByteTokenizer(), tmp_path)
    assert ByteTokenizer().decode(store.ids.tolist()) == "".join(pieces) and store.n_bytes == len(store) - 1


def test_long_lines_of_invalid_bytes_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_PIECE", 16)
    report = CorpusReport()
    assert list(read_pieces(DataFile(write(tmp_path / "a", b"\x80" * 100 + b"\nfine\n")), report)) == ["fine\n"]
    assert report.problems["invalid UTF-8"][1] == 1


def test_unusable_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"hello\n" * 1000)[:30])
    for paths, message in [
        ([], "no text file"),
        ([tmp_path / "none"], "no such file"),
        ([cut], "not a complete compressed file"),
    ]:
        with pytest.raises(UserError, match=message):
            opened(paths, ByteTokenizer(), tmp_path)
    assert not (tmp_path / "corpora").exists()
    empty = opened([write(tmp_path / "empty", b"")], ByteTokenizer(), tmp_path)
    assert empty.ids.tolist() == [EOS] and empty.n_bytes == 0
    assert list(TextFiles((tmp_path / "empty",)).read().pieces) == []
