from regard.text.html_table import MAX_TOKENS, sentence_pair_html, weight_table_html


def test_text_in_a_table_is_escaped_and_weights_are_percentages() -> None:
    table = weight_table_html(["<b>"], ["x", "y"], [[0.25, 0.75]])
    assert "&lt;b&gt;" in table and "<b>" not in table
    assert ">25</td>" in table and ">75</td>" in table


def test_many_columns_have_vertical_labels_and_too_many_give_no_table() -> None:
    for n, vertical in ((10, False), (11, True)):
        assert ("vertical-rl" in weight_table_html(["a"], ["x"] * n, [[0.0] * n])) == vertical
    n = MAX_TOKENS + 1
    assert "<table" not in weight_table_html(["a"], ["x"] * n, [[0.0] * n])


def test_a_target_that_equals_the_source_is_left_out() -> None:
    assert sentence_pair_html("a & b", "c\x07").count("<p") == 2
    assert "a &amp; b" in sentence_pair_html("a & b", "c") and "&lt;0x07&gt;" in sentence_pair_html("a", "c\x07")
    assert sentence_pair_html("a", "a").count("<p") == 1
