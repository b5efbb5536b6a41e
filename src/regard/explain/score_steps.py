"""Sentences and formulas for every score, normalisation and query of a model's attention."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.explain.explanation import Step, Table, matrix, step
from regard.explain.formula import (
    DIVIDE_BY_SUM,
    SCALED_SCORES,
    SOFTMAX,
    UNNORMALISED,
    Formula,
    apply,
    expr,
    frac,
    power,
    sqrt,
    sub,
    words,
)
from regard.models.protocols import AttentionModule

_Q, _K, _E = sub("q", "i"), sub("k", "j"), sub("e", "i j")
_PLAIN_SCORES = expr("E = Q", power("K", "T"))
_ALIBI = expr(_E, "=", frac(expr(_Q, "·", _K), sqrt(sub("d", "k"))), "−", sub("m", "h"), "| i − j |")

SCORES_OF_PRODUCTS = ("dot", "linear", "scaled-dot", "cosine")
"""Scores that are computed from the dot products of queries and keys"""
_SCORES: dict[str, tuple[str, Formula]] = {
    "dot": ("The dot products are the scores.", _PLAIN_SCORES),
    "linear": ("The dot products are the scores; q and k have already gone through the feature map.", _PLAIN_SCORES),
    "scaled-dot": ("Divide by the square root of the width of the head.", SCALED_SCORES),
    "cosine": ("Divide by the lengths of query and key.", expr(_E, "=", frac(expr(_Q, "·", _K), "‖q‖ ‖k‖"))),
    "bilinear": (
        "A learned matrix W between query and key gives the scores; the two may have different widths.",
        expr(_E, "=", power(_Q, "T"), "W", _K),
    ),
    "additive": (
        "A small feed-forward network gives the score of each query and key.",
        expr(
            _E,
            "=",
            power("v", "T"),
            apply("tanh", expr(sub("W", "q"), _Q, "+", sub("W", "k"), _K, "+ b")),
        ),
    ),
    "location": (
        "The scores are linear in the query, one for each position; the keys are not used.",
        expr(_E, "=", sub(expr("W", _Q, "+ b"), "j")),
    ),
}
NORMALISATIONS: dict[str, tuple[str, Formula]] = {
    "softmax": ("Softmax turns the scores into weights.", SOFTMAX),
    "hardmax": (
        "Hardmax: the weight is 1 at the largest score and 0 everywhere else.",
        expr(sub("α", "i"), "= 1", words("if"), "i =", sub("argmax", "j"), sub("e", "j"), ",", words("otherwise"), "0"),
    ),
    "sum": ("Dividing each row by its sum gives the weights.", DIVIDE_BY_SUM),
    "none": ("This model does not normalise: its scores are its weights.", UNNORMALISED),
    "exp": (
        "The scores are logarithms of weights already. A row may sum to less than 1: part of the weight is lost.",
        expr(sub("α", "i"), "=", apply("exp", sub("e", "i"))),
    ),
}
_HIDDEN_SCORE = {"sum": 0.0, "none": 0.0}  # of the other normalisations: −∞


_LOG_WEIGHTS = {
    "none": (
        "The scores are linear in the query, one for each of L_max positions; the keys are not used. Softmax runs over "
        "all L_max positions; these are its logarithms at the positions of the source.",
        expr(_E, "=", apply("log", sub(apply("softmax", expr("W", _Q, "+ b")), "j"))),
    ),
    "gaussian": (
        "The decoder predicts a position p_i of the source. These are the logarithms of the softmax over the window "
        "around p_i, times a Gaussian: the further from p_i, the less.",
        expr(
            _E,
            "=",
            apply("log", sub(apply("softmax", sub("s", "i")), "j")),
            "−",
            frac(power(expr("j −", sub("p", "i")), "2"), expr("2", power("σ", "2"))),
        ),
    ),
}
"""Scores that are logarithms of weights, by what is added to them"""


def score_step(module: AttentionModule, scores: Table) -> Step:
    """Show scores, with the formula by which this attention computes them."""
    if module.score_bias == "alibi":
        return step("The scaled dot products, minus the ALiBi penalty for distance.", _ALIBI, scores)
    if module.normalise == "exp":
        return step(*_LOG_WEIGHTS[module.score_bias], scores)
    return step(*_SCORES[module.score_name], scores)


def masked_scores(scores: Tensor, mask: Tensor, normalise: str, rows: Sequence[str], columns: Sequence[str]) -> Table:
    """Return the scores with −∞ (or 0 if there is no exponential) where the mask forbids attention."""
    hidden = scores.masked_fill(~mask, _HIDDEN_SCORE.get(normalise, -torch.inf))
    return matrix("masked scores", hidden, rows, columns)


class RnnEquations(NamedTuple):
    """How an RNN decoder uses attention, in words and formulas."""

    query_text: str
    query: Formula
    use_text: str
    use: Formula


_STATE, _PREVIOUS, _INPUT, _CONTEXT = sub("h", "t"), sub("h", "t−1"), sub("x", "t"), sub("c", "t")
NEXT_STATE = expr(_STATE, "=", apply("RNN", _INPUT, _PREVIOUS))
JOINED_INPUT = expr("z =", apply("ReLU", expr(sub("W", "c"), "[", _INPUT, ";", _CONTEXT, "] +", sub("b", "c"))))
NEXT_STATE_FROM_JOINED = expr("(", sub("y", "t"), ",", _STATE, ") =", apply("RNN", "z", _PREVIOUS))
OUTPUT_EQUATIONS = RnnEquations(
    "The query of step t is the decoder's state after reading a word; keys and values are the encoder's states.",
    expr(sub("q", "t"), "=", _STATE, "=", apply("RNN", _INPUT, _PREVIOUS)),
    "The next word is predicted from context and state side by side.",
    expr(apply("p", sub("y", "t")), "=", apply("softmax", expr("W [", _CONTEXT, ";", _STATE, "]"))),
)
INPUT_EQUATIONS = RnnEquations(
    "The query of step t is the state before it and the word that is read, side by side; keys and values are the "
    "encoder's states.",
    expr(sub("q", "t"), "= [", _PREVIOUS, ";", _INPUT, "]"),
    "The word that is read and the context form the input of the RNN, and the next word is predicted from its output.",
    expr(JOINED_INPUT, ",", NEXT_STATE_FROM_JOINED),
)


RNN_EQUATIONS = {"output": OUTPUT_EQUATIONS, "input": INPUT_EQUATIONS}
"""By where the context goes: into the prediction, or into the input of the RNN"""
