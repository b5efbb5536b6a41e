from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from regard.data.pair_store import open_store
from regard.data.parallel_corpus import Corpus
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from tests.conftest import write_pairs


def test_a_store_is_built_once_and_found_by_content(tmp_path: Path) -> None:
    pairs = [("a b c", "x y"), ("b", "y " * 30), ("c a", "z")] * 10
    corpus = Corpus(write_pairs(tmp_path, "train", pairs)).read()
    tokenizer = train_tokenizer([s for p in pairs for s in p], TokenizerConfig(kind="word"))
    pair = TokenizerPair(tokenizer, tokenizer)
    store = open_store(corpus, pair, max_tokens=20, folder=tmp_path)
    assert len(store) == 20
    assert store.report.problems == {"over 20 tokens": (10, 2)}
    texts = [tokenizer.decode(ids) for ids in store.src(np.arange(20)).lists()]
    assert texts == ["a b c", "c a"] * 10
    assert isinstance(store.src_ids, np.memmap) and store.src_ids.dtype == np.uint16

    [folder] = (tmp_path / "corpora").iterdir()
    before = folder.stat().st_mtime_ns
    again = open_store(corpus, pair, max_tokens=20, folder=tmp_path)
    assert again.fingerprint == store.fingerprint and again.report.problems == store.report.problems
    assert folder.stat().st_mtime_ns == before
    assert open_store(corpus, pair, max_tokens=40, folder=tmp_path).fingerprint != store.fingerprint


def test_a_corpus_that_cannot_be_read_leaves_no_store(tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, "train", [("a", "b"), ("c", "d")])
    tgt.write_text("b\n")
    tokenizer = train_tokenizer(["a b c"], TokenizerConfig(kind="word"))
    with pytest.raises(ValueError, match="2 lines"):
        open_store(Corpus((src, tgt)).read(), TokenizerPair(tokenizer, tokenizer), 20, folder=tmp_path)
    assert not (tmp_path / "corpora").exists()


def test_a_build_that_fails_leaves_no_store(tmp_path: Path) -> None:
    class Failing:
        size = 10

        def to_bytes(self) -> bytes:
            return b""

        def encode(self, texts: list[str]) -> list[list[int]]:
            raise RuntimeError

    corpus = Corpus(write_pairs(tmp_path, "train", [("a", "b")])).read()
    with pytest.raises(RuntimeError):
        open_store(corpus, TokenizerPair(Failing(), Failing()), 20, folder=tmp_path)  # type: ignore[arg-type]
    assert list((tmp_path / "corpora").iterdir()) == []


def test_processes_that_build_the_same_store_at_once_all_get_it(tmp_path: Path) -> None:
    corpus = Corpus(write_pairs(tmp_path, "train", [("a b c", "x y")] * 2000)).read()
    tokenizer = train_tokenizer(["a b c x y"], TokenizerConfig(kind="word"))
    pair = TokenizerPair(tokenizer, tokenizer)
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(open_store, corpus, pair, 20, tmp_path / str(i // 4)) for i in range(12)]
        assert [len(job.result()) for job in jobs] == [2000] * 12
    assert not list(tmp_path.glob("*/corpora/.*.tmp"))


@pytest.mark.parametrize("name", ["src.ids", "tgt.ids", "src.ends", "tgt.ends", "numbers", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "folder"])
def test_a_damaged_cache_is_made_again_and_named(name: str, damage: str, tmp_path: Path) -> None:
    pairs = [("a b", "c"), ("b", "c d")]
    corpus = Corpus(write_pairs(tmp_path, "train", pairs)).read()
    tokenizer = train_tokenizer([text for pair in pairs for text in pair], TokenizerConfig(kind="word"))
    tokenizers, warnings = TokenizerPair(tokenizer, tokenizer), list[str]()

    def opened() -> tuple[list[int], list[int], int]:
        store = open_store(corpus, tokenizers, 20, tmp_path / "cache", warnings.append)
        rows = np.arange(len(store))
        return store.src(rows).ids.tolist(), store.tgt(rows).lengths.tolist(), store.report.used

    before = opened()
    assert not warnings
    [path] = (tmp_path / "cache" / "corpora").glob(f"*/{name}")
    content = path.read_bytes()
    match damage:
        case "flip":
            path.write_bytes(bytes([content[0] ^ 4]) + content[1:])
        case "truncate":
            path.write_bytes(content[:-5])
        case "delete":
            path.unlink()
        case "folder":
            path.unlink()
            path.mkdir()
    assert opened() == before
    [warning] = warnings
    assert name in warning and "tokenised again" in warning
    assert opened() == before and len(warnings) == 1
