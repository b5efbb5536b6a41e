"""Links from cross-attention."""

import numpy as np
import pytest

from regard.alignment.from_attention import Aligner, format_links, links_between_units
from regard.alignment.sentence_pairs import intersect_links
from regard.errors import UserError
from regard.models.record import AttentionRecord


def make_record(source: tuple[str, ...], target: tuple[str, ...], *layers: list[list[float]]) -> AttentionRecord:
    """Make a record with these cross-attention weights [target, source] per layer, with one head each."""
    cross = np.array(layers, dtype=np.float32)[:, None]
    s, t = len(source), len(target)
    return AttentionRecord(
        source, target, np.zeros((0, 0, s, s), np.float32), np.zeros((0, 0, t, t), np.float32), cross
    )


def test_attention_is_summed_over_source_pieces_and_averaged_over_target_pieces() -> None:
    weights = [
        [0.3, 0.2, 0.4, 0.1],  # first piece of the target word
        [0.1, 0.3, 0.2, 0.4],
        [0.0, 0.1, 0.8, 0.1],
        [0.0, 0.0, 0.0, 1.0],
    ]
    record = make_record(("▁gr", "een", "▁witch", "</s>"), ("▁ver", "te", "▁sorcière", "</s>"), weights)
    expected = [[(0.5 + 0.4) / 2, (0.4 + 0.2) / 2], [0.1, 0.8]]
    assert np.allclose(record.merge_words().cross[0, 0], expected)
    assert Aligner()(record) == {(0, 0), (1, 1)}  # taken alone, the first piece attends most to "witch"


def test_one_layer_or_the_mean_of_all() -> None:
    first, second = [[1.0, 0.0, 0.0]], [[0.2, 0.8, 0.0]]
    record = make_record(("▁a", "▁b", "</s>"), ("▁x",), first, second)
    assert Aligner()(record) == {(0, 0)}
    assert Aligner(layer=0)(record) == {(0, 0)}
    assert Aligner(layer=1)(record) == {(1, 0)}


def test_with_a_threshold_a_word_may_have_no_link_or_several() -> None:
    weights = [[0.45, 0.5, 0.05], [0.2, 0.1, 0.7], [0.0, 0.0, 1.0]]
    record = make_record(("▁a", "▁b", "</s>"), ("▁x", "▁y", "</s>"), weights)
    assert Aligner(threshold=0.4)(record) == {(0, 0), (1, 0)}
    assert Aligner()(record) == {(1, 0), (0, 1)}
    with pytest.raises(UserError, match="no layer 3"):
        Aligner(layer=3)(record)


def test_links_are_written_sorted_by_source_word() -> None:
    assert format_links({(1, 0), (0, 1)}) == "0-1 1-0"


def test_the_intersection_holds_links_that_both_directions_find() -> None:
    assert intersect_links({(0, 1), (2, 2)}, {(1, 0)}) == {(0, 1)}


def test_without_spaces_links_are_counted_in_characters() -> None:
    weights = [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]
    record = make_record(("▁the", "▁student", "</s>"), ("▁その", "学生", "は", "</s>"), weights)
    assert Aligner()(record) == {(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)}
    assert Aligner().word_links(record) == {(0, 0), (1, 1), (1, 2)}
    assert links_between_units({(1, 0)}, [1, 2], [2]) == {(1, 0), (1, 1), (2, 0), (2, 1)}
