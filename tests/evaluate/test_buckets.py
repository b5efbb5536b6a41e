from regard.evaluate.buckets import length_buckets
from regard.evaluate.metrics import ScoreOptions
from regard.evaluate.translation import bleu_by_length


def test_sources_are_grouped_by_words_and_empty_buckets_are_left_out() -> None:
    sources = ["a", "a b", "a b c", "a b c d e f"]
    buckets = length_buckets(sources, (1, 3, 4))
    assert [(b.label, b.rows) for b in buckets] == [("1", [0]), ("2–3", [1, 2]), ("5+", [3])]
    assert [(b.low, b.high) for b in buckets] == [(1, 1), (2, 3), (5, None)]
    assert length_buckets(["", "   "], (5,)) == [], "a source without words belongs to no bucket"


def test_bleu_by_length_labels_its_last_bucket_with_over() -> None:
    sources = [" ".join("x" * n) for n in (1, 10, 11, 41, 90)]
    texts = ["a b c d e"] * 5
    rows = bleu_by_length(sources, texts, texts, ScoreOptions())
    assert [(words, count) for words, count, _ in rows] == [("1–10", 2), ("11–20", 1), ("over 40", 2)]
    assert all(abs(bleu - 100) < 1e-9 for *_, bleu in rows)
