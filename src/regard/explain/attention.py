"""Attention by hand: queries, keys, scores, weights, output (W5)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.explain.explanation import (
    Explanation,
    GridPlot,
    Step,
    Table,
    column_numbers,
    matrix,
    max_difference,
    step,
)
from regard.explain.formula import (
    ATTENTION,
    OUTPUT,
    SCALED_SCORES,
    SOFTMAX,
    expr,
    power,
    sub,
)
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.explain.score_steps import (
    NORMALISATIONS,
    RNN_EQUATIONS,
    SCORES_OF_PRODUCTS,
    masked_scores,
    score_step,
)
from regard.models.protocols import AttentionModule
from regard.models.record import HeadRecord
from regard.nn.attention import attend, attend_fused
from regard.nn.normalise import NORMALISERS, softmax
from regard.nn.scores import Dot, ScaledDot

_W = ((2, 2, 0, 1), (4, 2, 3, 1), (0, 2, 4, 1), (1, 4, 2, 1))
LECTURE_X = ((1, 2, 3, 4), (3, 2, 1, 3), (0, 1, 1, 4))
_SLIDE_QUERY = (10, 18, 15, 19)
PLOT_AXES = ("attended to", "attending")
_SLIDE_NOTES = (
    "The slide speaks of four words but gives three vectors.",
    "The slide does not give the matrix for the values; here it is the same W.",
)
_MAX_IN_RESULT = 12  # tokens whose largest weight the result names

_PRODUCTS = expr("Q", power("K", "T"))


def explain_attention() -> Explanation:
    w, x = (torch.tensor(values, dtype=torch.float64) for values in (_W, LECTURE_X))
    q = k = v = x @ w.T
    products, scores = Dot()(q, k), ScaledDot()(q, k)
    weights = softmax(scores, None)
    y, words, columns = weights @ v, ("x₁", "x₂", "x₃"), column_numbers(x)
    example = " + ".join(f"{a} · {b}" for a, b in zip(_W[1], LECTURE_X[0], strict=True))
    projections = expr(sub("q", "i"), "= W", sub("x", "i"), ",", sub("k", "j"), "= W", sub("x", "j"))
    mixture = " + ".join(f"{a:.3f} v{i}" for a, i in zip(weights[0].tolist(), "₁₂₃", strict=True))
    return Explanation(
        "Attention by hand: queries, keys, scores, output",
        (
            step("Three words as vectors, and the matrix W.", matrix("X", x, words, columns), matrix("W", w)),
            step(
                "W times the vector of a word gives its query and its key. For example, the second component of q₁ is "
                f"{example}.",
                projections,
                matrix("q₁", q[0]),
                matrix("k₂", k[1]),
            ),
            step(
                "The dot product of a query and a key tells how well they match.",
                expr(sub("q", "1"), "·", sub("k", "2")),
                matrix("q₁ · k₂", products[0, 1]),
            ),
            step("The dot product of every query with every key.", _PRODUCTS, matrix("Q Kᵀ", products, words, words)),
            step("Divide by the square root of the width.", SCALED_SCORES, matrix("scores", scores, words, words)),
            step("Softmax over the sentence gives the weights.", SOFTMAX, matrix("weights", weights, words, words)),
            step(
                "The output is the weighted sum of the values.",
                OUTPUT,
                matrix("v", v, words, columns),
                matrix("y₁", y[0]),
            ),
            step("All of this in one function, `regard.attend`.", ATTENTION, max_difference(attend(q, k, v)[0], y)),
        ),
        f"q₁ · k₂ = {format_number(float(products[0, 1]))}, and y₁ = {mixture}: when scores differ this much, one word "
        "gets all the weight.",
        (_slide_correction(q[0], k[1]), *_SLIDE_NOTES),
        GridPlot(weights.numpy(), *PLOT_AXES, words, words),
    )


def _slide_correction(q: Tensor, k: Tensor) -> str:
    slide = torch.tensor(_SLIDE_QUERY, dtype=q.dtype)
    shown, correct = (format_number(float(Dot()(row[None], k[None]))) for row in (slide, q))
    query = ", ".join(f"{value:.0f}" for value in q.tolist())
    return f"The slide shows q₁ = {list(_SLIDE_QUERY)} and q₁ · k₂ = {shown}; W x₁ is [{query}], which gives {correct}."


def explain_attention_on_model(model_input: ModelInput) -> Explanation:
    head = model_input.head_record()
    module = model_input.attention_module(head.kind)
    rows, columns = unique_labels(head.rows), unique_labels(head.columns)
    scores, mask = torch.from_numpy(head.scores), torch.from_numpy(head.mask)
    weights = NORMALISERS[module.normalise](scores, mask)
    largest = [f"{row} → {columns[w.argmax()]} ({w.max():.2f})" for row, w in zip(rows, head.weights, strict=True)]
    return Explanation(
        f"One attention head ({head.kind}, layer {head.layer}, head {head.head}): {model_input.short_text}",
        (
            _query_step(head, module, rows, columns),
            *_score_steps(head, module, rows, columns),
            step(
                *NORMALISATIONS[module.normalise],
                None if mask.all() else masked_scores(scores, mask, module.normalise, rows, columns),
                matrix("weights", head.weights, rows, columns),
                max_difference(weights, head.weights, "largest difference from the model's own weights"),
            ),
            step(
                "The output of the head is the weighted sum of the values.",
                OUTPUT,
                matrix("output", head.output, rows, column_numbers(head.output)),
                _difference_from_fused(head, module),
            ),
            *_use_steps(module),
        ),
        f"The largest weight of each token: {', '.join(largest[:_MAX_IN_RESULT])}"
        f"{' …' if len(largest) > _MAX_IN_RESULT else '.'}",
        plot=GridPlot(head.weights, *PLOT_AXES, rows, columns),
    )


def _query_step(head: HeadRecord, module: AttentionModule, rows: Sequence[str], columns: Sequence[str]) -> Step:
    """Show queries, keys and values; of an RNN decoder, say what its queries are."""
    sides = (("q", head.q, rows), ("k", head.k, columns), ("v", head.v, columns))
    tables = [matrix(name, x, tokens, column_numbers(x)) for name, x, tokens in sides]
    if equations := RNN_EQUATIONS.get(module.context):
        return step(equations.query_text, equations.query, *tables)
    return step(f"The queries, keys and values of this head{_describe_widths(head)}.", *tables)


def _describe_widths(head: HeadRecord) -> str:
    d_k, d_v = head.k.shape[1], head.v.shape[1]
    return f", of width {d_v}" if d_k == d_v else f": queries and keys of width {d_k}, values of width {d_v}"


def _use_steps(module: AttentionModule) -> list[Step]:
    """Say what an RNN decoder does with the context vector; nothing for other models."""
    equations = RNN_EQUATIONS.get(module.context)
    if equations is None:
        return []
    return [step(f"{equations.use_text} (`regard explain seq2seq-step` goes on from here.)", equations.use)]


def _score_steps(head: HeadRecord, module: AttentionModule, rows: Sequence[str], columns: Sequence[str]) -> list[Step]:
    """Show the dot products, if the scores are computed from them, and the model's scores."""
    q, k = torch.from_numpy(head.q), torch.from_numpy(head.k)
    steps = []
    if module.score_name in SCORES_OF_PRODUCTS:
        products = matrix("q · k", Dot()(q, k), rows, columns)
        steps.append(step("The dot product of every query with every key.", _PRODUCTS, products))
    return [*steps, score_step(module, matrix("scores", head.scores, rows, columns))]


def _difference_from_fused(head: HeadRecord, module: AttentionModule) -> Table | None:
    """Compare with the fused kernel, which computes the same output without storing the weights.

    The model uses it for the scaled dot product with softmax; returns None for other scores.
    """
    if not getattr(module, "fused", False) or module.score_name != "scaled-dot" or module.score_bias != "none":
        return None
    q, k, v, mask = (torch.from_numpy(x)[None, None] for x in (head.q, head.k, head.v, head.mask))
    fused = attend_fused(q, k, v, mask)[0, 0]
    return max_difference(head.output, fused, "largest difference from the fused kernel that the model uses")
