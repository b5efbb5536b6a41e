"""Every pair is either kept or dropped for one reason, which is counted and written down."""

from pathlib import Path

import pytest

from regard.data.data_file import read_lines
from regard.errors import UserError
from regard.synthetic.pair_filter import PairFilter, SyntheticPair, dropped_path, filter_pairs

GOOD = [SyntheticPair(f"source number {i}", f"target number {i}", -i / 100) for i in range(100)]
LONG = "a sentence that is its own translation"
BAD = {
    "empty line": SyntheticPair("", "", problem="empty line"),
    "duplicate of an earlier pair": GOOD[3],
    "identical sides": SyntheticPair(LONG, LONG, -0.1),
    "extreme length ratio": SyntheticPair("word " * 30, "short", -0.1),
}


def test_reasons_are_counted_and_written(tmp_path: Path) -> None:
    pairs = [*GOOD, *BAD.values(), SyntheticPair("ok", "ok", -0.1)]
    result = filter_pairs(pairs, PairFilter(), tmp_path / "pairs.tsv.gz")
    assert result.dropped == dict.fromkeys(BAD, 1)
    assert (result.n_pairs, result.kept) == (len(pairs), 101)
    kept = [tuple(line.decode().split("\t")) for line in read_lines(result.file)]
    assert kept == [pair[:2] for pair in (*GOOD, pairs[-1])]
    header, *rows = [line.decode().split("\t") for line in read_lines(tmp_path / "pairs.dropped.tsv.gz")]
    assert header == ["line", "reason", "source", "target"]
    assert {reason: (int(line), source, target) for line, reason, source, target in rows} == {
        reason: (101 + i, pair.source, pair.target) for i, (reason, pair) in enumerate(BAD.items())
    }


def test_scores_decide_after_the_other_rules(tmp_path: Path) -> None:
    pairs = [*GOOD, GOOD[0]]
    low = filter_pairs(pairs, PairFilter(min_score=-0.495), tmp_path / "low.tsv")
    assert (low.kept, low.dropped) == (50, {"score below -0.495": 50, "duplicate of an earlier pair": 1})
    share = filter_pairs(pairs, PairFilter(keep=0.9), tmp_path / "share.tsv")
    assert (share.kept, share.dropped["not among the best 90 % by score"]) == (90, 10)
    both = filter_pairs(pairs, PairFilter(min_score=-0.495, keep=0.5), tmp_path / "both.tsv")
    assert (both.kept, sum(both.dropped.values())) == (25, 76)
    kept = [line.decode().split("\t")[0] for line in read_lines(both.file)]
    assert kept == [pair.source for pair in GOOD[:25]]


def test_equal_scores_are_kept_together(tmp_path: Path) -> None:
    pairs = [pair._replace(score=-1.0) for pair in GOOD]
    assert filter_pairs(pairs, PairFilter(keep=0.1), tmp_path / "pairs.tsv").kept == 100


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no pair is left \(1 × empty line\)"):
        filter_pairs([BAD["empty line"]], PairFilter(), tmp_path / "pairs.tsv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.tsv.xz"])
def test_the_dropped_pairs_are_beside_the_others(name: str) -> None:
    assert dropped_path(Path(name)).name == name.replace("a.", "a.dropped.")
