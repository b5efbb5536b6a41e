"""The numbers of the lectures. Tests are named after the rows of the lectures: W1, P6, S9 …"""

import numpy as np
import pytest
import torch

from regard.explain.explanation import Explanation
from regard.explain.topics import TOPICS, Topic, find_topic
from regard.nn.attention import attend
from tests.explain.checks import assert_differences_are_rounding_errors, assert_renders

SENTENCE = "the green witch arrived"


def explain(name: str) -> Explanation:
    return find_topic(name).explain_lecture()


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_every_topic_renders(topic: Topic) -> None:
    explanation = topic.explain_lecture()
    assert_differences_are_rounding_errors(explanation, 1e-6)
    assert_renders(explanation)


def test_w1_dot_product() -> None:
    assert explain("W1")["a · b"] == 9


def test_w2_cosines() -> None:
    orange, phone, apple, and_, an = range(5)
    expected = np.eye(5)
    for i, j, value in ((apple, orange, 0.71), (apple, phone, 0.71), (and_, an, 1.0)):
        expected[i, j] = expected[j, i] = value
    assert np.array_equal(explain("W2")["cos"].round(2), expected)


def test_w3_weights_by_the_sum() -> None:
    explanation = explain("W3")
    rounded = explanation["rounded first"].round(3)
    assert rounded[0].tolist() == [0.585, 0.415, 0, 0] and rounded[2].tolist() == [0, 0, 0.5, 0.5]
    assert explanation["by the sum"][0, 0] == pytest.approx(1 / (1 + 2**-0.5))
    assert explanation["phone"][2].round(2).tolist() == [0, 0.41, 0.59]
    assert explanation["new, by the sum"][2] == pytest.approx([0, 0, 2.5])
    assert "0.57 and 0.43" in explanation.notes[0] and "0.585 and 0.415" in explanation.notes[0]


def test_w4_weights_by_softmax() -> None:
    explanation = explain("W4")
    weights = explanation["by softmax"].round(2)
    assert weights[0].tolist() == [0.40, 0.30, 0.15, 0.15] and weights[2].tolist() == [0.13, 0.13, 0.37, 0.37]
    assert "0.15, 0.15, 0.5, 0.5" in explanation.notes[1] and "1.3" in explanation.notes[1]
    assert "0.13, 0.13, 0.37, 0.37" in explanation.notes[1]


def test_w5_attention_by_hand() -> None:
    explanation = explain("W5")
    assert explanation["q₁"].tolist() == [[10, 21, 20, 19]] and explanation["k₂"].tolist() == [[13, 22, 11, 16]]
    assert explanation["q₁ · k₂"] == 1116 and explanation["scores"][0, 1] == 1116 / 2
    assert explanation["weights"].sum(1) == pytest.approx(1)
    assert explanation["y₁"][0] == pytest.approx(explanation["weights"][0] @ explanation["v"])
    note = explanation.notes[0]
    assert "[10, 18, 15, 19]" in note and "995" in note and "1116" in note


def test_w6_shapes() -> None:
    explanation = explain("W6")
    tables = [table for step in explanation.steps for table in step.tables if table.rows]
    shapes = {row: cells for table in tables for row, cells in zip(table.rows, table.cells, strict=True)}
    a, b, c = 4, 3, 5
    sizes = {"(a, b)": f"({a}, {b})", "(c, a)": f"({c}, {a})", "(c, b)": f"({c}, {b})", "(b, b)": f"({b}, {b})"}
    for symbol, shape in shapes.values():
        assert shape == sizes.get(str(symbol), symbol)
    assert shapes["both heads concatenated, one word"] == ("(4, 1)", "(4, 1)")
    assert shapes["q of one head and word"] == ("(2, 1)", "(2, 1)")
    assert explanation["A′"].sum(0) == pytest.approx(1)


def test_w7_positions() -> None:
    explanation = explain("W7")
    sin, cos = np.sin, np.cos
    expected = [[0, 1, 0, 1]] + [[sin(p), cos(p), sin(p / 100), cos(p / 100)] for p in (1, 2)]
    assert explanation["PE"] == pytest.approx(np.array(expected))
    assert explanation["largest difference"] < 1e-12
    table = torch.from_numpy(explanation["PE"])
    x = torch.from_numpy(explanation["X + PE"]) - table
    forward, backward = (attend(m, m, m)[0] for m in (x + table, x.flip(0) + table))
    difference = float((backward - forward.flip(0)).abs().max())
    assert difference > 0.1 and explanation["largest difference with positions"] == pytest.approx(difference)
    assert "zeros" in explanation.notes[0] and "[0, 1, 0, 1]" in explanation.notes[0]


def test_w8_greedy_search_and_p12_beam_search_on_the_same_table() -> None:
    greedy = explain("W8")
    assert greedy["greedy"][0] == pytest.approx([0.5, 0.4, 0.4, 0.6]) and greedy["P(greedy)"] == pytest.approx(0.048)
    assert greedy["other"][0] == pytest.approx([0.5, 0.3, 0.6, 0.6]) and greedy["P(other)"] == pytest.approx(0.054)
    beam = explain("P12")
    best = beam["finished"][0]
    assert best[0] == "A C B <eos>" and float(best[2]) == pytest.approx(0.054)
    assert beam["candidates 3"][:, 3].tolist() == ["kept", "kept", "pruned", "pruned"]
    assert beam["candidates 4"][:, 3].tolist() == ["finished", "finished", "pruned", "pruned"]


def test_w9_every_line_of_the_proof_holds() -> None:
    explanation = explain("W9")
    p = explanation["P"]
    assert explanation["P X"] == pytest.approx(p @ explanation["X"])
    assert explanation["A(P X)"] == pytest.approx(explanation["P A(X)"])
    assert explanation["largest difference with a mask"] > 0.1


def test_w11_projection_and_the_scaled_dot_product() -> None:
    explanation = explain("W11")
    assert explanation["xₚ"].tolist() == [[0, 2, 0]] and explanation["xₒ"].tolist() == [[2, 0, 0]]
    assert explanation["cos(x, y)"] == pytest.approx(2**-0.5)
    orange, phone, apple, and_, an = range(5)
    pairs = ((orange, orange), (phone, phone), (apple, orange), (apple, phone), (apple, apple), (and_, an))
    assert [round(explanation["scaled"][pair], 2) for pair in pairs] == [5.20, 9.24, 3.46, 4.62, 4.62, 3.46]


def test_w12_linear_maps_change_similarities_and_values_are_weighted_as_in_w4() -> None:
    explanation = explain("W12")
    before, fruit, technology = (
        explanation[f"cos{name}"] for name in ("", " after M (fruit)", " after M (technology)")
    )
    orange, phone, apple = range(3)
    assert before[apple, orange] == pytest.approx(before[apple, phone])
    assert fruit[apple, orange] > 0.9 > 0.3 > fruit[apple, phone] and technology[apple, phone] > 0.9
    assert np.array_equal(explanation["weights"], explain("W4")["by softmax"])
    assert explanation["y"] == pytest.approx(explanation["weights"] @ explanation["V"])


def test_w13_a_layer_gives_the_numbers_of_the_slide_and_one_head_does_not() -> None:
    explanation = explain("W13")
    assert explanation["layer(X)"] == pytest.approx(explanation["A(X) (slide)"])
    assert explanation["layer(X)"].tolist() == [[6, 7, 8, 9]] and explanation["layer(X′)"].tolist() == [[9, 8, 7, 6]]
    closest = explanation["closest head"][0]
    assert np.abs(closest - [6, 7, 8, 9]).max() > 0.5 and (np.diff(closest, 2) < 0).all()


def test_w10_the_adjective_moves_behind_its_noun() -> None:
    explanation = explain("W10")
    gold = dict(zip(explanation.steps[1].tables[0].rows, explanation["gold"].tolist(), strict=True))
    assert gold["sorcière"] == [0, 0, 1, 0] and gold["verte"] == [0, 1, 0, 0]
    assert "“green witch” becomes “sorcière verte”" in explanation.result


def test_p6_learning_rate_and_p7_label_smoothing() -> None:
    peaks = explain("P6")["peak"][0]
    assert [f"{peak:.6f}" for peak in peaks] == ["0.000699", "0.000494"]
    smoothing = explain("P7")
    assert smoothing["y_ls"][0] == pytest.approx([0.02, 0.02, 0.92, 0.02, 0.02], abs=1e-6)
    assert smoothing["smoothed loss"] == pytest.approx(-(smoothing["y_ls"] * np.log(smoothing["p"])).sum(), abs=1e-6)


def test_s9_masking_equals_growing_keys_and_s18_a_cache_equals_recomputing() -> None:
    masking = explain("S9")
    assert masking["output"] == pytest.approx(masking["with growing keys"])
    assert np.array_equal(np.triu(masking["weights"], 1), np.zeros((4, 4)))
    cache = explain("S18")["word"]
    assert cache[:, 3].max() < 1e-12
    assert cache[:, 2].tolist() == [8, 16, 24, 32] and cache[:, 1].tolist() == [1, 2, 3, 4]


def test_p16_attention_becomes_the_table_as_the_scale_grows() -> None:
    explanation = explain("P16")
    assert explanation["by hardmax"] == 530 and explanation["by softmax"] > 535
    values = explanation["scale"][:, -1].astype(float)
    assert (np.diff(values) <= 0).all() and values[-1] == 530
    assert explanation["hard"].tolist() == [[0, 1, 0]]
    assert 460 < explanation["turquoise, by softmax"] < 530 == explanation["turquoise, by hardmax"]


def test_p19_pre_and_post_norm() -> None:
    explanation = explain("P19")
    assert explanation["mean"][:, 2] == pytest.approx(np.zeros(3), abs=1e-5)
    assert explanation["length"][:, 2] == pytest.approx(np.full(3, 2.0), abs=1e-4)
    assert (explanation["mean"][:, 1] > 1).all()
    dropped, kept = explanation["after dropout"], explanation["FFN(X)"]
    assert (dropped == 0).any() and dropped[dropped != 0] == pytest.approx(kept[dropped != 0] / 0.75)


def test_p20_one_step_and_p5_the_sum_over_the_sentence() -> None:
    step = explain("P20")
    scores = step["H"] @ step["hₜ"][0]
    weights = np.exp(scores) / np.exp(scores).sum()
    assert step["α"][0] == pytest.approx(weights) and step["cₜ"][0] == pytest.approx(weights @ step["H"])
    logits = step["W"] @ step["[c ; h]"][0]
    assert step["−log p"] == pytest.approx(np.log(np.exp(logits).sum()) - logits[1])
    nll = explain("P5")
    assert nll["NLL"] == pytest.approx(-np.log(0.054)) and nll["P(y)"] == pytest.approx(0.054)


def test_p24_other_matrices_with_the_same_product_give_the_same_scores() -> None:
    explanation = explain("P24")
    x, b = explanation["X"], explanation["W_Q"] @ explanation["W_K"].T
    assert explanation["scores"] == pytest.approx(x @ b @ x.T)
    assert explanation["W_Q′"] @ explanation["W_K′"].T == pytest.approx(b)
    assert not np.allclose(explanation["W_Q′"], explanation["W_Q"])


def test_p25_a_rotation_moves_every_position() -> None:
    explanation = explain("P25")
    m = explanation["Mₖ"]
    assert m @ m.T == pytest.approx(np.eye(4)) and explanation["PE(pos)"] @ m.T == pytest.approx(
        explanation["PE(pos + k)"]
    )
    products = explanation["PE · PE"]
    assert all(np.diag(products, k) == pytest.approx(products[0, k]) for k in range(6))


def test_p27_pooling_gives_one_vector_for_any_number_of_words() -> None:
    explanation = explain("P27")
    assert explanation["y"].shape == (1, 3)
    assert explanation["y"][0] == pytest.approx(explanation["α"][0] @ explanation["X"])
    assert explanation["α"][0, 2:].sum() < 0.2


def test_notes_say_where_slides_are_off() -> None:
    notes = {name: " ".join(explain(name).notes) for name in ("W5", "W7", "S7", "P6")}
    assert "four words" in notes["W5"] and "“love”" in notes["W7"]
    assert "XᵀX" in notes["S7"] and "256:4000, which peaks at 0.00099" in notes["P6"]


def test_p22_widths_of_heads_are_free() -> None:
    assert explain("P22")["matrix"][:, 1].tolist() == ["4 × 6", "4 × 6", "4 × 2", "2 × 4"]


def test_p9_merges_end_with_the_pieces_of_the_tokenizer() -> None:
    explanation = explain("P9")
    last_stages = [explanation[f"{word}, merge by merge"][-1, 0] for word in SENTENCE.split()]
    assert " ".join(last_stages) in explanation.result
    assert explanation["the, merge by merge"][0, 0] == "▁ t h e"
    assert explanation["merge"][0, 1] >= explanation["merge"][-1, 1]
