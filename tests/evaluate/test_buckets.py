from regard.evaluate.buckets import length_buckets


def test_sources_are_grouped_by_words_and_empty_buckets_are_left_out() -> None:
    sources = ["a", "a b", "a b c", "a b c d e f"]
    buckets = length_buckets(sources, (1, 3, 4))
    assert [(b.label, b.rows) for b in buckets] == [("1", [0]), ("2–3", [1, 2]), ("5+", [3])]
    assert [(b.low, b.high) for b in buckets] == [(1, 1), (2, 3), (5, None)]
    assert length_buckets(["", "   "], (5,)) == [], "a source without words belongs to no bucket"


def test_lengths_are_counted_in_characters_where_there_are_no_spaces() -> None:
    buckets = length_buckets(["私は学生です。", "買った"], (3,), "characters")
    assert [(b.label, b.rows) for b in buckets] == [("1–3", [1]), ("4+", [0])]
