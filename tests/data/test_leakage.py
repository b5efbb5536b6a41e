from pathlib import Path

import numpy as np

from regard.data.leakage import find_leakage, find_leakage_within
from regard.data.parallel_corpus import Corpus, ParsedCorpus


def corpus(path: Path, *lines: str) -> ParsedCorpus:
    path.write_text("".join(f"{line}\n" for line in lines))
    return Corpus((path,)).read()


def test_sources_and_pairs_in_both_corpora_are_counted(tmp_path: Path) -> None:
    train = corpus(tmp_path / "train.tsv", "a\tb", "c\td", "e\tf")
    valid = corpus(tmp_path / "valid.tsv", "x\ty", "\tz", "a\tb", "c\te", "b\ta")
    leakage = find_leakage(valid, train, n_lines=3)
    assert (leakage.total, leakage.sources, leakage.pairs, leakage.lines) == (4, 2, 1, (3, 4))
    line = leakage.describe("validation data")
    assert (
        "2 of 4 sources (50.0 %) of the validation data" in line and "1 with the same target (first at line 3)" in line
    )
    assert find_leakage(corpus(tmp_path / "other.tsv", "b\ta"), train).describe("test data") == ""


def test_held_out_rows_are_compared_with_the_others(tmp_path: Path) -> None:
    whole = corpus(tmp_path / "all.tsv", "a\tb", "", "c\td", "a\tc", "e\tf")
    leakage = find_leakage_within(whole, np.array([1, 2]), np.array([0, 3]))
    assert (leakage.total, leakage.sources, leakage.pairs, leakage.lines) == (2, 1, 0, (4,))
