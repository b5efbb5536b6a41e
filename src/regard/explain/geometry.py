"""The geometry of similarity: projection, cosine and the scaled dot product (W11)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, GridPlot, Step, Table, column_numbers, matrix, max_difference, step
from regard.explain.formula import apply, expr, frac, sqrt, sub
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.explain.similarity import COSINE, WORDS, word_vectors
from regard.nn.scores import Cosine, Dot, ScaledDot

_X, _Y = "Apple", "Orange"
_PARALLEL = expr(sub("x", "p"), "=", frac("x · y", "y · y"), "y")
_ORTHOGONAL = expr(sub("x", "o"), "= x −", sub("x", "p"), ",", sub("x", "o"), "· y = 0")
_COSINE_BY_LENGTHS = expr(apply("cos", "x", "y"), "= ±", frac("‖xₚ‖", "‖x‖"))
_SCALED_DOT = expr(frac("x · y", sqrt("d")))


def explain_geometry() -> Explanation:
    words, vectors = tuple(WORDS), word_vectors(*WORDS)
    scaled = ScaledDot()(vectors, vectors)
    of_apple = dict(zip(words, scaled[words.index(_X)].tolist(), strict=True))
    return Explanation(
        f"The geometry of similarity: {_X} and {_Y}",
        (
            *_projection_steps(word_vectors(_X), word_vectors(_Y), (_X, _Y)),
            step("The cosine of every pair: lengths do not matter.", COSINE, _pairs("cos", Cosine(), vectors, words)),
            step("The dot product: longer vectors give larger numbers.", _pairs("x · y", Dot(), vectors, words)),
            step(
                f"The third similarity is the scaled dot product, with d = {vectors.shape[1]} numbers per word.",
                _SCALED_DOT,
                _pairs("scaled", ScaledDot(), vectors, words),
            ),
        ),
        f"{_X} is equally similar to Orange and Phone by the cosine, but not by the scaled dot product "
        f"({of_apple['Orange']:.2f} and {of_apple['Phone']:.2f}), because Phone is the longer vector. Dividing by √d "
        "does not change which pair is more similar; it keeps the numbers small when vectors have many components.",
        plot=GridPlot(scaled.numpy(), "y", "x", words, words, (0.0, float(scaled.max()))),
    )


def explain_geometry_on_model(model_input: ModelInput) -> Explanation:
    tokens, x = model_input.input_labels, model_input.embeddings
    first, last = x[:1], x[-1:]
    scaled = ScaledDot()(x, x)
    limit = float(scaled.abs().max())
    return Explanation(
        f"The geometry of the model's embeddings: {model_input.short_text}",
        (
            *_projection_steps(first, last, (tokens[0], tokens[-1])),
            step("The cosine of every pair of tokens.", COSINE, _pairs("cos", Cosine(), x, tokens)),
            step(
                f"The scaled dot product, with d = {x.shape[1]} numbers per token.",
                _SCALED_DOT,
                _pairs("scaled", ScaledDot(), x, tokens),
            ),
        ),
        f"The part of “{tokens[0]}” along “{tokens[-1]}” has {format_number(_share(first, last))} of its length. In a "
        f"space of {x.shape[1]} dimensions two vectors drawn at random are nearly orthogonal.",
        plot=GridPlot(scaled.numpy(), "y", "x", tokens, tokens, (-limit, limit)),
    )


def _projection_steps(x: Tensor, y: Tensor, names: tuple[str, str]) -> list[Step]:
    """Split x [1, D] into a part along y and a part orthogonal to y, and show that the lengths give the cosine."""
    parallel = Dot()(x, y) / Dot()(y, y) * y
    orthogonal = x - parallel
    ratio = parallel.norm() / x.norm() * Dot()(x, y).sign()
    numbers = column_numbers(x)
    return [
        step(
            "Two vectors.",
            matrix("vector", torch.cat([x, y]), [f"{n} ({v})" for n, v in zip(names, "xy", strict=True)], numbers),
        ),
        step("The part of x along y: the shadow of x on the line through y.", _PARALLEL, matrix("xₚ", parallel)),
        step(
            "What is left is orthogonal to y.",
            _ORTHOGONAL,
            matrix("xₒ", orthogonal),
            max_difference(Dot()(orthogonal, y), 0.0, "largest difference of xₒ · y from 0"),
        ),
        step(
            "The length of the shadow, relative to the length of x, is the cosine; it is negative if the shadow points "
            "away from y.",
            _COSINE_BY_LENGTHS,
            matrix("cos(x, y)", ratio),
            max_difference(ratio, Cosine()(x, y), "largest difference from the library's cosine"),
        ),
    ]


def _pairs(name: str, score: torch.nn.Module, x: Tensor, labels: Sequence[str]) -> Table:
    return matrix(name, score(x, x), labels, labels)


def _share(x: Tensor, y: Tensor) -> float:
    """|cos(x, y)| for x, y [1, D]"""
    return float(Cosine()(x, y).abs())
