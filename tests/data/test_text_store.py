import gzip
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import text_files, text_store
from regard.data.batch import Batch
from regard.data.batching import BatchConfig, Batches, StreamPosition
from regard.data.corpus_report import CorpusReport
from regard.data.data_file import DataFile
from regard.data.text_batches import MaskedBatches, TextBatches, windows
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
from regard.text.vocab import BOS, EOS, MASK, PAD, SPECIALS

ODD = "  if x:\n\treturn  'é 😀'\n\n\n▁the  cat▁ \u00a0\u2028 sees\r the   witch   \n end"
FIRST = len(SPECIALS)


def numbered(n: int) -> TextStore:
    """A text in which every id occurs once, so that tokens can be told apart."""
    return TextStore(np.arange(FIRST, FIRST + n, dtype=np.uint16), n, FIRST + n, CorpusReport(), "test")


def opened(paths: Sequence[Path], tokenizer: Tokenizer, folder: Path) -> TextStore:
    with closing(TextFiles(tuple(paths)).read()) as text:
        return open_text(text, tokenizer, folder)


def config(tokens: int = 60, workers: int = 0) -> BatchConfig:
    return BatchConfig(tokens=tokens, workers=workers)


def epoch_of(batches: Batches, epoch: int) -> list[Batch]:
    return [batches.batch(epoch, i) for i in range(len(batches.plan(epoch)))]


def same(left: Sequence[tuple[StreamPosition, Batch]], right: Sequence[tuple[StreamPosition, Batch]]) -> bool:
    return all(
        a == b and all(torch.equal(s, t) for s, t in zip(x.tensors(), y.tensors(), strict=True))
        for (a, x), (b, y) in zip(left, right, strict=True)
    )


def trained(kind: str, text: str = ODD) -> Tokenizer:
    lines = text.splitlines(keepends=True) * 20
    return train_tokenizer(lines, TokenizerConfig.parse({"kind": kind, "vocab_size": 320, "lossless": True}))


# ---- training batches


def test_the_input_is_the_block_shifted_by_one() -> None:
    for batch in epoch_of(TextBatches(numbered(200), config(), 1, context=10), 0):
        assert batch.src.shape == (6, 0) and batch.src.dtype == torch.int64
        assert batch.tgt_in.shape == batch.tgt_out.shape == (6, 10)
        assert (batch.tgt_in[:, 0] == BOS).all()
        assert torch.equal(batch.tgt_in[:, 1:], batch.tgt_out[:, :-1])
        assert (batch.tgt_out.diff(dim=1) == 1).all(), "a block is contiguous"


@pytest.mark.parametrize("kind", [TextBatches, MaskedBatches])
@pytest.mark.parametrize(("n", "context"), [(1000, 10), (999, 7), (61, 10), (60, 10), (25, 10), (19, 10), (10, 10)])
def test_an_epoch_has_nearly_all_tokens_and_none_twice(
    kind: type[TextBatches] | type[MaskedBatches], n: int, context: int
) -> None:
    batches = kind(numbered(n), config(), 1, context)
    assert batches.size == n // context
    shapes, offsets = set(), set()
    for epoch in range(8):
        starts = np.concatenate(batches.plan(epoch))
        tokens = np.concatenate([batches.blocks(rows).ravel() for rows in batches.plan(epoch)])
        assert len(set(tokens)) == len(tokens)
        shape = (len(batches.plan(epoch)[0]), context)
        assert n - len(tokens) < shape[0] * context + context
        shapes |= {tuple(rows.shape) for rows in batches.plan(epoch)}
        offsets.add(int(starts[0]) % context)
    assert len(shapes) == 1, "one shape in all epochs"
    assert len(offsets) > 1 or n == context, "epochs start at different offsets"


def test_blocks_are_shuffled_by_seed_and_epoch() -> None:
    batches = TextBatches(numbered(1000), config(), 1, context=10)
    orders = [np.concatenate(TextBatches(numbered(1000), config(), s, 10).plan(e)) for s, e in [(1, 0), (1, 1), (2, 0)]]
    assert np.array_equal(np.concatenate(batches.plan(0)), orders[0])
    places = [np.argsort(order) for order in orders]
    assert not any(np.array_equal(a[:90], b[:90]) for a, b in [(places[0], places[1]), (places[0], places[2])])
    assert not np.array_equal(places[0], np.arange(len(places[0])))


@pytest.mark.parametrize("kind", [TextBatches, MaskedBatches])
def test_any_start_and_any_number_of_workers_give_the_same_batches(
    kind: type[TextBatches] | type[MaskedBatches],
) -> None:
    def take(start: StreamPosition, n: int, workers: int = 0) -> list[tuple[StreamPosition, Batch]]:
        return list(islice(kind(numbered(1000), config(workers=workers), 1, context=10).stream(start), n))

    whole = take(StreamPosition(0, 0), 60)
    assert whole[-1][0].epoch > 2
    for workers in (1, 2, 5):
        assert same(take(StreamPosition(0, 0), 60, workers), whole)
    for cut in (1, 16, 41):
        assert same(take(whole[cut - 1][0], 15, workers=2), whole[cut : cut + 15])


def test_a_text_shorter_than_a_block_is_refused_with_what_to_do() -> None:
    with pytest.raises(UserError, match="lower the context"):
        TextBatches(numbered(9), config(), 1, context=10)
    with pytest.raises(UserError, match="1 or more"):
        TextBatches(numbered(9), config(), 1, context=0)
    assert TextBatches(numbered(50), config(tokens=5), 1, context=10).batch(0, 0).size == 1


def test_masking() -> None:
    n = 60_000
    batches = MaskedBatches(numbered(n), config(tokens=6000), 1, context=100)
    counts = dict.fromkeys(("places", "chosen", "mask", "same", "random"), 0)
    for index, batch in enumerate(epoch_of(batches, 0)):
        assert batch.src.shape == batch.tgt_out.shape == (60, 100) and batch.tgt_in.shape == (60, 0)
        original = torch.from_numpy(batches.blocks(batches.plan(0)[index]))
        chosen = batch.tgt_out != PAD
        assert torch.equal(batch.tgt_out[chosen], original[chosen])
        assert torch.equal(batch.src[~chosen], original[~chosen]), "tokens that are not predicted are unchanged"
        inputs = batch.src[chosen]
        random = (inputs != MASK) & (inputs != original[chosen])
        assert (inputs[random] >= FIRST).all() and (inputs < FIRST + n).all()
        counts["places"] += chosen.numel()
        counts["chosen"] += int(chosen.sum())
        counts["mask"] += int((inputs == MASK).sum())
        counts["same"] += int((inputs == original[chosen]).sum())
        counts["random"] += int(random.sum())
    assert abs(counts["chosen"] / counts["places"] - 0.15) < 0.01
    assert abs(counts["mask"] / counts["chosen"] - 0.8) < 0.02
    assert abs(counts["same"] / counts["chosen"] - 0.1) < 0.015
    assert abs(counts["random"] / counts["chosen"] - 0.1) < 0.015


def test_masks_depend_on_seed_epoch_and_batch_and_spare_specials() -> None:
    ids = np.tile(np.array([EOS, 7, EOS, EOS], dtype=np.uint16), 100)
    store = TextStore(ids, 400, 20, CorpusReport(), "test")

    def chosen(seed: int, epoch: int, index: int) -> torch.Tensor:
        batch = MaskedBatches(store, config(tokens=80), seed, context=40).batch(epoch, index)
        assert (batch.src[batch.tgt_out == PAD] != MASK).all()
        assert set(batch.tgt_out.unique().tolist()) == {PAD, 7}, "EOS is never predicted"
        assert (batch.tgt_out != PAD).any(dim=1).all(), "every block has a token to predict"
        return batch.tgt_out

    assert torch.equal(chosen(1, 0, 0), chosen(1, 0, 0))
    for other in [(2, 0, 0), (1, 1, 0), (1, 0, 1)]:
        assert not torch.equal(chosen(1, 0, 0), chosen(*other))


# ---- evaluation


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11, 25, 40])
@pytest.mark.parametrize(("context", "stride"), [(10, 10), (10, 5), (10, 3), (10, 1), (1, 1), (40, 7)])
def test_windows_predict_every_token_once_with_enough_context(n: int, context: int, stride: int) -> None:
    ids = numbered(n).ids
    scored = []
    for number, (tgt_in, tgt_out) in enumerate(windows(ids, context, stride)):
        assert tgt_in.shape == tgt_out.shape == (context,) and tgt_in.dtype == np.int64
        assert tgt_in[0] == BOS
        [places] = np.nonzero(tgt_out != PAD)
        assert len(places), "every window has a target"
        assert number == 0 or places[0] >= context - stride
        assert all(tgt_in[i] == tgt_out[i] - 1 for i in places if i), "the input is the previous token"
        scored += tgt_out[places].tolist()
    assert scored == ids.tolist()


@pytest.mark.parametrize("stride", [0, 11])
def test_windows_that_would_leave_gaps_are_refused(stride: int) -> None:
    with pytest.raises(UserError, match="choose 1 to 10"):
        next(windows(np.arange(5), 10, stride))


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
    for options in ({"kind": "word"}, {"byte_fallback": False}, {"dropout": 0.1}):
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
    batch = TextBatches(store, config(), 1, context=5).batch(0, 0)
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
    for paths, message in [([], "no text file"), ([tmp_path / "none"], "no such file"), ([cut], "gzip")]:
        with pytest.raises(UserError, match=message):
            opened(paths, ByteTokenizer(), tmp_path)
    assert not (tmp_path / "corpora").exists()
    empty = opened([write(tmp_path / "empty", b"")], ByteTokenizer(), tmp_path)
    assert empty.ids.tolist() == [EOS] and empty.n_bytes == 0
    assert list(TextFiles((tmp_path / "empty",)).read().pieces) == []
