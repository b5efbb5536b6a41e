"""Word alignments from attention, and how wrong they are."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.alignment.aligner import Aligner, moses
from regard.alignment.evaluate import AlignmentErrors, choose, intersection
from regard.alignment.markup import Transfer
from regard.data.word_alignments import GoldAlignment, Links, read_alignments
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.translator import Candidate, Translation


def rate(found: list[Links], gold: list[GoldAlignment]) -> float:
    return AlignmentErrors.of(found, gold).rate


def record(source: tuple[str, ...], target: tuple[str, ...], *layers: list[list[float]]) -> AttentionRecord:
    cross = np.array(layers, dtype=np.float32)[:, None]  # one head
    s, t = len(source), len(target)
    return AttentionRecord(
        source, target, np.zeros((0, 0, s, s), np.float32), np.zeros((0, 0, t, t), np.float32), cross
    )


def test_a_perfect_alignment_has_no_error() -> None:
    gold = [GoldAlignment({(0, 0), (1, 2)}, {(0, 0), (1, 2)}), GoldAlignment({(0, 0)}, {(0, 0)})]
    assert rate([{(0, 0), (1, 2)}, {(0, 0)}], gold) == 0.0
    assert rate([{(5, 5)}, {(6, 6)}], gold) == 1.0


def test_the_error_rate_of_a_worked_example() -> None:
    # A has 4 links; 2 of the 3 sure ones are found, and 3 of A are possible: 1 − (2 + 3) / (4 + 3)
    sure = {(0, 0), (1, 1), (2, 3)}
    gold = [GoldAlignment(sure, sure | {(2, 2)})]
    assert rate([{(0, 0), (1, 1), (2, 2), (3, 3)}], gold) == pytest.approx(2 / 7)


def test_attention_is_summed_over_source_pieces_and_averaged_over_target_pieces() -> None:
    weights = [
        [0.3, 0.2, 0.4, 0.1],  # first piece of the target word
        [0.1, 0.3, 0.2, 0.4],
        [0.0, 0.1, 0.8, 0.1],
        [0.0, 0.0, 0.0, 1.0],
    ]
    one = record(("▁gr", "een", "▁witch", "</s>"), ("▁ver", "te", "▁sorcière", "</s>"), weights)
    expected = [[(0.5 + 0.4) / 2, (0.4 + 0.2) / 2], [0.1, 0.8]]
    assert np.allclose(one.words().cross[0, 0], expected)
    assert Aligner()(one) == {(0, 0), (1, 1)}  # piece by piece, the first would look at "witch"


def test_one_layer_or_the_mean_of_all() -> None:
    first, second = [[1.0, 0.0, 0.0]], [[0.2, 0.8, 0.0]]
    two = record(("▁a", "▁b", "</s>"), ("▁x",), first, second)
    assert Aligner()(two) == {(0, 0)}
    assert Aligner(layer=0)(two) == {(0, 0)}
    assert Aligner(layer=1)(two) == {(1, 0)}


def test_gold_alignments_are_read(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0 1?2\n\n")
    assert read_alignments(path) == [GoldAlignment({(0, 0)}, {(0, 0), (1, 2)}), GoldAlignment(set(), set())]
    for bad in ("1-x", "9" * 5000 + "-0"):
        path.write_text(f"0-0\n{bad}\n")
        with pytest.raises(UserError, match="line 2"):
            read_alignments(path)


def test_precision_and_recall_of_the_worked_example() -> None:
    sure = {(0, 0), (1, 1), (2, 3)}
    errors = AlignmentErrors.of([{(0, 0), (1, 1), (2, 2), (3, 3)}], [GoldAlignment(sure, sure | {(2, 2)})])
    assert (errors.precision, errors.recall) == (pytest.approx(3 / 4), pytest.approx(2 / 3))


def test_a_threshold_links_none_or_several() -> None:
    weights = [[0.45, 0.5, 0.05], [0.2, 0.1, 0.7], [0.0, 0.0, 1.0]]
    one = record(("▁a", "▁b", "</s>"), ("▁x", "▁y", "</s>"), weights)
    assert Aligner(threshold=0.4)(one) == {(0, 0), (1, 0)}
    assert Aligner()(one) == {(1, 0), (0, 1)}
    assert moses({(1, 0), (0, 1)}) == "0-1 1-0"
    with pytest.raises(UserError, match="no layer 3"):
        Aligner(layer=3)(one)


def test_the_head_that_is_right_is_chosen() -> None:
    wrong, right = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]
    two = record(("▁a", "▁b", "</s>"), ("▁x", "▁y"), wrong, right)
    diagonal = {(0, 0), (1, 1)}
    ranked = choose([two], [GoldAlignment(diagonal, diagonal)])
    assert ranked[0][0].layer == 1 and ranked[0][1].rate == 0.0
    assert {(aligner.layer, aligner.head) for aligner, _ in ranked} == {
        *((None, None), (0, None), (1, None)),
        *((0, 0), (1, 0)),
    }
    assert intersection({(0, 1), (2, 2)}, {(1, 0)}) == {(0, 1)}


def test_as_many_alignments_as_pairs(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("0-0\n")
    with pytest.raises(UserError, match="1 lines for 2 pairs"):
        read_alignments(tmp_path / "gold", 2)


class Recited:
    """A translator that says what it is told, and looks where it is told."""

    aligner = Aligner()

    def __init__(self, source: tuple[str, ...], target: tuple[str, ...], aligned: list[int]) -> None:
        self.tokens = source, target
        weights = np.zeros((len(target) + 1, len(source) + 1), dtype=np.float32)
        weights[range(len(target)), aligned] = 1.0
        weights[-1, -1] = 1.0
        self.record = record((*source, "</s>"), (*target, "</s>"), weights.tolist())

    def stream(self, lines: Iterable[str], **options: object) -> Iterator[Translation]:
        text = "".join(self.tokens[1]).replace("▁", " ").replace("<unk>", " ⁇ ").strip()
        for line in lines:
            yield Translation(line, self.tokens[0], (Candidate(text, 0.0, self.tokens[1], self.record),))


def carried(translator: Recited, line: str, **what: bool) -> str:
    [found] = Transfer(**what).translate(translator, [line])  # type: ignore[arg-type]
    assert found.source == line
    return found.text


def test_unknown_words_come_from_the_source() -> None:
    said = Recited(("▁the", "▁Zy", "<unk>", "▁witch"), ("▁la", "▁sor", "cière", "▁", "<unk>", "▁x"), [0, 3, 3, 1, 2, 1])
    assert carried(said, "the Zyž witch", unknown=True) == "la sorcière Zyž"
    assert carried(said, "the Zyž witch") == "la sorcière ⁇ x"
    assert carried(said, "the <b>Zyž</b> witch", unknown=True, markup=True) == "la sorcière <b>Zyž</b>"


def test_markup_follows_the_alignment_of_pieces() -> None:
    said = Recited(("▁the", "▁gr", "een", "▁witch"), ("▁la", "▁sor", "cière", "▁verte"), [0, 3, 3, 1])
    assert carried(said, "the <b>green</b> witch", markup=True) == "la sorcière <b>verte</b>"
    assert carried(said, "the green witch {x}", markup=True) == "la sorcière verte {x}"
