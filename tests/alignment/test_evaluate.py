"""Alignment scores against gold alignments, and the choice of the best aligner."""

from pathlib import Path

import pytest

from regard.alignment.evaluate import AlignmentScores, rank_aligners
from regard.data.word_alignments import GoldAlignment, Links, read_alignments
from regard.errors import UserError
from tests.alignment.test_from_attention import make_record


def error_rate(predicted: list[Links], gold: list[GoldAlignment]) -> float:
    return AlignmentScores.of(predicted, gold).error_rate


def test_a_perfect_alignment_has_error_rate_0_and_a_disjoint_one_1() -> None:
    gold = [GoldAlignment({(0, 0), (1, 2)}, {(0, 0), (1, 2)}), GoldAlignment({(0, 0)}, {(0, 0)})]
    assert error_rate([{(0, 0), (1, 2)}, {(0, 0)}], gold) == 0.0
    assert error_rate([{(5, 5)}, {(6, 6)}], gold) == 1.0


def test_scores_of_an_example_computed_by_hand() -> None:
    # 4 predicted links, of which 2 are among the 3 sure ones and 3 are possible: 1 − (2 + 3) / (4 + 3)
    sure = {(0, 0), (1, 1), (2, 3)}
    scores = AlignmentScores.of([{(0, 0), (1, 1), (2, 2), (3, 3)}], [GoldAlignment(sure, sure | {(2, 2)})])
    assert scores.error_rate == pytest.approx(2 / 7)
    assert (scores.precision, scores.recall) == (pytest.approx(3 / 4), pytest.approx(2 / 3))


def test_the_head_that_agrees_with_gold_is_ranked_first() -> None:
    wrong, right = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]
    record = make_record(("▁a", "▁b", "</s>"), ("▁x", "▁y"), wrong, right)
    diagonal = {(0, 0), (1, 1)}
    ranked = rank_aligners([record], [GoldAlignment(diagonal, diagonal)])
    assert ranked[0][0].layer == 1 and ranked[0][1].error_rate == 0.0
    assert {(aligner.layer, aligner.head) for aligner, _ in ranked} == {
        *((None, None), (0, None), (1, None)),
        *((0, 0), (1, 0)),
    }


def test_gold_alignments_are_read_and_bad_lines_named(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0 1?2\n\n")
    assert read_alignments(path) == [GoldAlignment({(0, 0)}, {(0, 0), (1, 2)}), GoldAlignment(set(), set())]
    for bad in ("1-x", "9" * 5000 + "-0"):
        path.write_text(f"0-0\n{bad}\n")
        with pytest.raises(UserError, match="line 2"):
            read_alignments(path)


def test_gold_alignments_must_have_one_line_per_pair(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("0-0\n")
    with pytest.raises(UserError, match="1 lines for 2 pairs"):
        read_alignments(tmp_path / "gold", 2)
