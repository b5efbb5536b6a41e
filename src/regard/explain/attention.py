"""Attention by hand: W5."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, GridPlot, Step, Table, difference, matrix, numbered, step
from regard.explain.formula import ATTENTION, OUTPUT, PLAIN, SCORES, SOFTMAX, SUM, math, power, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.models.record import HeadRecord
from regard.nn.attention import attend, attend_fused
from regard.nn.normalise import NORMALISERS, softmax
from regard.nn.scores import Dot, ScaledDot

WEIGHT = ((2, 2, 0, 1), (4, 2, 3, 1), (0, 2, 4, 1), (1, 4, 2, 1))
WORDS = ((1, 2, 3, 4), (3, 2, 1, 3), (0, 1, 1, 4))
SLIDE_QUERY = (10, 18, 15, 19)
SAME = 1e-4  # rounding of float32 stays far below

_PRODUCTS = math("Q", power("K", "T"))
_KNOWN = (
    (Dot(), "The score is this dot product itself.", math("E = Q", power("K", "T"))),
    (ScaledDot(), "Divided by the root of the head's width.", SCORES),
)
NORMALISED = {
    "softmax": ("Weights by softmax.", SOFTMAX),
    "sum": ("Weights: each row divided by its sum.", SUM),
    "none": ("This model leaves the second step out: its scores are its weights.", PLAIN),
}


def attention() -> Explanation:
    w, x = (torch.tensor(given, dtype=torch.float64) for given in (WEIGHT, WORDS))
    q = k = v = x @ w.T
    products, scores = Dot()(q, k), ScaledDot()(q, k)
    weights = softmax(scores, None)
    y, names_, places = weights @ v, ("x₁", "x₂", "x₃"), numbered(x)
    second = " + ".join(f"{a} · {b}" for a, b in zip(WEIGHT[1], WORDS[0], strict=True))
    mapped = math(sub("q", "i"), "= W", sub("x", "i"), ",", sub("k", "j"), "= W", sub("x", "j"))
    shares = " + ".join(f"{a:.3f} v{i}" for a, i in zip(weights[0].tolist(), "₁₂₃", strict=True))
    return Explanation(
        "Attention by hand: queries, keys, a score, the output",
        (
            step("Three words as vectors, and the matrix.", None, matrix("X", x, names_, places), matrix("W", w)),
            step(
                f"The matrix times the word is its query, and its key; the second number of q₁ is {second}.",
                mapped,
                matrix("q₁", q[0]),
                matrix("k₂", k[1]),
            ),
            step(
                "Their dot product: how well they fit.",
                math(sub("q", "1"), "·", sub("k", "2")),
                matrix("q₁ · k₂", products[0, 1]),
            ),
            step("Every query with every key.", _PRODUCTS, matrix("Q Kᵀ", products, names_, names_)),
            step("Divided by the root of the width.", SCORES, matrix("scores", scores, names_, names_)),
            step("Softmax over the sentence.", SOFTMAX, matrix("weights", weights, names_, names_)),
            step(
                "The output: values, weighted and added up.", OUTPUT, matrix("v", v, names_, places), matrix("y₁", y[0])
            ),
            step("All of it by the one function `regard.attend`.", ATTENTION, difference(attend(q, k, v)[0], y)),
        ),
        f"q₁ · k₂ = {number(float(products[0, 1]))}, and y₁ = {shares}: scores so far apart leave one word alone.",
        (_slide(q[0], k[1]), "The slide leaves the matrix of the values open; here it is the same W."),
        GridPlot(weights.numpy(), "looked at", "looks", names_, names_),
    )


def _slide(q: Tensor, k: Tensor) -> str:
    slide = torch.tensor(SLIDE_QUERY, dtype=q.dtype)
    printed, right = (number(float(Dot()(row[None], k[None]))) for row in (slide, q))
    mapped = ", ".join(f"{value:.0f}" for value in q.tolist())
    return (
        f"The slide prints q₁ = {list(SLIDE_QUERY)} and q₁ · k₂ = {printed}; W x₁ is [{mapped}], which gives {right}."
    )


def attention_of_own(own: ModelInput) -> Explanation:
    head = own.head_record()
    rows, columns = unique_labels(head.rows), unique_labels(head.columns)
    how = normaliser_of(head)
    scores, mask = torch.from_numpy(head.scores), torch.from_numpy(head.mask)
    again = NORMALISERS[how](scores, mask)
    best = [f"{row} at {columns[w.argmax()]} ({w.max():.2f})" for row, w in zip(rows, head.weights, strict=True)]
    sides = (("q", head.q, rows), ("k", head.k, columns), ("v", head.v, columns))
    return Explanation(
        f"One head at work ({head.kind}, layer {head.layer}, head {head.head}): {own.quoted_text}",
        (
            step(
                f"The head's queries, keys and values, of width {head.v.shape[1]}.",
                None,
                *(matrix(name, x, tokens, numbered(x)) for name, x, tokens in sides),
            ),
            *_scored(head, rows, columns),
            step(
                *NORMALISED[how],
                *([] if mask.all() else [hidden_scores(scores, mask, how, rows, columns)]),
                matrix("weights", head.weights, rows, columns),
                difference(again, head.weights, "largest difference from the model's own weights"),
            ),
            step(
                "The output of the head.",
                OUTPUT,
                matrix("output", head.output, rows, numbered(head.output)),
                *_against_fused(head, how),
            ),
        ),
        f"Each looks most: {', '.join(best[:12])}{' …' if len(best) > 12 else '.'}",
        (),
        GridPlot(head.weights, "looked at", "looks", rows, columns),
    )


def normaliser_of(head: HeadRecord) -> str:
    """Which of the library's normalisers made the weights out of the scores"""
    scores, mask, weights = (torch.from_numpy(x) for x in (head.scores, head.mask, head.weights))
    fits = (name for name, f in NORMALISERS.items() if torch.allclose(f(scores, mask), weights, atol=SAME))
    return next(fits, "softmax")


def hidden_scores(scores: Tensor, mask: Tensor, how: str, rows: Sequence[str], columns: Sequence[str]) -> Table:
    """With −∞ (without a softmax: 0) where nothing may be looked at"""
    hidden = scores.masked_fill(~mask, -torch.inf if how == "softmax" else 0.0)
    return matrix("masked scores", hidden, rows, columns)


def _scored(head: HeadRecord, rows: Sequence[str], columns: Sequence[str]) -> list[Step]:
    """Dot products and their scaling, where the model's score is of that kind; else what its own score gives"""
    q, k, scores = (torch.from_numpy(x) for x in (head.q, head.k, head.scores))
    steps, says, formula = [], "What the model's own score gives.", None
    if q.shape[1] == k.shape[1]:
        steps.append(step("Each query with each key.", _PRODUCTS, matrix("q · k", Dot()(q, k), rows, columns)))
        for score, known, sample_tokens in _KNOWN:
            if torch.allclose(score(q, k), scores, atol=SAME):
                says, formula = known, sample_tokens
    return [*steps, step(says, formula, matrix("scores", scores, rows, columns))]


def _against_fused(head: HeadRecord, how: str) -> list[Table]:
    """Where the score is the scaled dot product, the model runs the fused form, which never holds the weights."""
    q, k, v, scores, mask = (torch.from_numpy(x)[None, None] for x in (head.q, head.k, head.v, head.scores, head.mask))
    same_width = q.shape[-1] == k.shape[-1]
    if how != "softmax" or not same_width or not torch.allclose(ScaledDot()(q, k), scores, atol=SAME):
        return []
    fused = attend_fused(q, k, v, mask)[0, 0]
    return [difference(head.output, fused, "largest difference from the fused kernel that the model runs")]
