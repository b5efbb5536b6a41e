"""Formulas, numbers, and explanations as text, JSON and pages."""

import json
import re
from html import escape
from xml.etree import ElementTree

import pytest
import torch

from regard.errors import UserError
from regard.explain.explanation import Explanation, matrix, step, table
from regard.explain.formula import apply, expr, frac, power, sqrt, sub, sum_over, words
from regard.explain.number_format import format_number
from regard.explain.render_html import render_html
from regard.explain.render_text import render_text
from regard.explain.topics import explain_topic


def test_a_formula_is_unicode_and_mathml() -> None:
    softmax = expr(sub("α", "i"), "=", frac(apply("exp", sub("e", "i")), sum_over("j", apply("exp", sub("e", "j")))))
    assert softmax.text == "αᵢ = exp(eᵢ) / (Σⱼ exp(eⱼ))"
    assert frac(expr("Q", power("K", "T")), sqrt(sub("d", "model"))).text == "(Q Kᵀ) / √d_model"
    assert power("10000", "2i/d").text == "10000^(2i/d)"
    assert frac("1", "2").mathml == "<mfrac><mn>1</mn><mn>2</mn></mfrac>"
    assert sub("y", "<t").mathml == "<msub><mi>y</mi><mi>&lt;t</mi></msub>"
    ElementTree.fromstring(softmax.mathml)
    assert sub("a + b", "j").text == "(a + b)ⱼ" and "<mo>(</mo>" in sub("a + b", "j").mathml
    assert "&#160;if&#160;" in expr("x", words("if"), "y").mathml


def test_numbers_shown_together_have_the_same_decimals() -> None:
    assert [format_number(x) for x in (0.054, 1116, 0.70710678, -0.0, 3e-9, -2.5)] == [
        *("0.054", "1116", "0.7071", "0", "3.0e-09", "−2.5")
    ]
    assert format_number(0.5, 0.125) == "0.500" and format_number(0.0, 3e-9) == "0"


def test_large_tables_are_cut_with_a_note_and_html_is_escaped() -> None:
    wide = matrix("<b>", torch.arange(600.0).view(20, 30) / 7, [f"token {i}" for i in range(20)])
    explanation = Explanation("<script>", (step("`a` < b", expr("a < b"), wide),), "&", ("…",))
    text, page = render_text(explanation), render_html(explanation)
    assert "(8 more rows and " in text and max(map(len, text.splitlines())) <= 96
    assert "<script" not in page and "(8 more rows and 6 more columns" in page and "<code>a</code> &lt; b" in page
    ElementTree.fromstring(page)
    assert len(json.loads(explanation.to_json())["steps"][0]["tables"][0]["cells"][19]) == 30


def test_a_notebook_shows_a_part_of_a_page_that_needs_no_styles() -> None:
    explanation = explain_topic("warmup")
    shown = explanation._repr_html_()
    assert not re.search("<(html|body|style|script|math)", shown)
    assert explanation.steps[0].formula is None or escape(explanation.steps[0].formula.text) in shown
    assert 'src="data:image/png;base64,' in shown and escape(explanation.title) in shown
    nested = shown.count("<li>"), shown.count("<ol>"), shown.count("<table>")
    assert nested == (shown.count("</li>"), shown.count("</ol>"), shown.count("</table>"))
    evil = Explanation("<script>", (step("<b>", table("<i>", ("<u>",), [("<s>",)])),), "<em>", ("<q>",))._repr_html_()
    assert not re.search("<(script|b|i|u|s|em|q)>", evil)


def test_a_topic_without_a_model_takes_no_text() -> None:
    with pytest.raises(UserError, match="no effect without a model"):
        explain_topic("attention", text="a")


def test_infinite_numbers_are_strings_in_json() -> None:
    explanation = Explanation("t", (step("s", table("l", ("a",), [(float("-inf"),)])),), "r")
    assert "−∞" in render_text(explanation)
    assert json.loads(explanation.to_json())["steps"][0]["tables"][0]["cells"] == [["-inf"]]
