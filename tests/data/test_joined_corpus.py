from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.joined_corpus import join_corpora
from regard.data.pair_rules import FilterConfig
from regard.data.pair_store import open_store
from regard.data.parallel_corpus import Corpus, ParsedCorpus
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from tests.conftest import write_pairs

FIRST = [(f"a {i}", f"x {i}") for i in range(700)]
SECOND = [("b " * 30, "y"), *[(f"b {i}", f"y {i}") for i in range(5)], ("b 1", "y 1")]


def read(folder: Path, name: str, pairs: list[tuple[str, str]]) -> ParsedCorpus:
    return Corpus(write_pairs(folder, name, pairs), filter=FilterConfig(drop_extreme_ratios=False)).read()


def test_a_joined_corpus_has_the_pairs_of_its_parts_and_keeps_their_reports(tmp_path: Path) -> None:
    first, second = read(tmp_path, "first", FIRST), read(tmp_path, "second", SECOND)
    joined = join_corpora([("one", first, ""), ("two", second, "<bt> ")])
    assert list(joined) == [*first, *second] and len(joined) == 706
    assert [joined[i] for i in (0, 699, 700, 705)] == [first[0], first[699], second[0], second[5]]
    for start, stop in ((0, 3), (1390, 1410), (1400, 1412), (256, 300)):
        assert list(joined.texts.slice(start, stop)) == [text for pair in joined for text in pair][start:stop]
    assert [(part.name, part.start, part.stop) for part in joined.parts] == [("one", 0, 700), ("two", 700, 706)]
    assert [part.prefix for part in joined.parts] == ["", "<bt> "]
    assert (joined.report.lines, joined.report.used) == (707, 706)
    assert np.array_equal(joined.table.hashes, np.concatenate([first.table.hashes, second.table.hashes]))
    assert list(joined.lines) == [*first.lines, *second.lines]


def test_the_store_has_tags_and_a_report_per_part(tmp_path: Path) -> None:
    first, second = read(tmp_path, "first", FIRST), read(tmp_path, "second", SECOND)
    joined = join_corpora([("one", first, ""), ("two", second, "<bt> ")])
    texts = [text for pair in (*FIRST, *SECOND) for text in pair]
    tokenizer = train_tokenizer(texts, TokenizerConfig(kind="word", symbols=("<bt>",)))
    store = open_store(joined, TokenizerPair(tokenizer, tokenizer), max_tokens=20, folder=tmp_path)
    sources = [tokenizer.decode(ids) for ids in store.src(np.arange(len(store))).lists()]
    assert sources == [source for source, _ in FIRST] + [f"<bt> {source}" for source, _ in SECOND[1:6]]
    assert store.reports[0].problems == {} and store.reports[0].used == 700
    assert store.reports[1].problems == {"duplicate of an earlier pair": (1, 7), "over 20 tokens": (1, 1)}
    assert store.reports[1].used == 5 and store.report.used == 705
    assert store.part_rows(joined.parts[1]) == slice(700, 705)


def test_fingerprints_depend_on_tags_and_order(tmp_path: Path) -> None:
    first, second = read(tmp_path, "first", FIRST), read(tmp_path, "second", SECOND)
    joined = [
        join_corpora([("one", first, "")]),
        join_corpora([("one", first, "<x> ")]),
        join_corpora([("one", first, ""), ("two", second, "")]),
        join_corpora([("two", second, ""), ("one", first, "")]),
        join_corpora([("one", first, ""), ("two", second, "<x> ")]),
    ]
    assert len({corpus.fingerprint for corpus in joined}) == 5
    assert joined[0] == replace(first, name="one"), "a single corpus is found in the cache"
