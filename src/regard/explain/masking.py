"""Masked self-attention: no word sees the words after it (S9)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.explain.attention import PLOT_AXES
from regard.explain.explanation import Explanation, GridPlot, Step, column_numbers, matrix, max_difference, step
from regard.explain.formula import OUTPUT, apply, expr, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.explain.score_steps import NORMALISATIONS, masked_scores
from regard.nn.attention import AttentionTrace, attend, attend_traced
from regard.nn.masks import causal_mask
from regard.nn.normalise import NORMALISERS

_WORDS = ("I", "love", "you", "too")
_GROWING_KEYS = expr(sub("y", "t"), "=", apply("A", sub("q", "t"), sub("K", "≤t"), sub("V", "≤t")))


def explain_masking() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(4, 3, generator=generator).double() for _ in range(3))
    trace = attend_traced(q, k, v, mask=causal_mask(4, 4))
    growing = torch.cat([attend(q[t : t + 1], k[: t + 1], v[: t + 1])[0] for t in range(len(q))])
    inputs = (matrix(name, x, _WORDS, column_numbers(x)) for name, x in (("Q", q), ("K", k), ("V", v)))
    return Explanation(
        "Masked self-attention: no word sees the words after it",
        (
            step("Queries, keys and values of four words, drawn at random: the rule holds for any numbers.", *inputs),
            *_mask_steps(trace, "softmax", growing, _WORDS, _WORDS),
        ),
        _compare(trace.output, growing),
        plot=GridPlot(trace.weights.numpy(), *PLOT_AXES, _WORDS, _WORDS),
    )


def explain_masking_on_model(model_input: ModelInput) -> Explanation:
    head = model_input.head_record("decoder")
    normalise = model_input.attention_module(head.kind).normalise
    rows, columns = unique_labels(head.rows), unique_labels(head.columns)
    trace = AttentionTrace(
        *map(torch.from_numpy, (head.q, head.k, head.v, head.scores, head.mask, head.weights)),
    )
    growing = torch.cat(
        [
            NORMALISERS[normalise](trace.scores[t : t + 1, visible], None) @ trace.v[visible]
            for t, visible in enumerate(trace.mask)
        ]
    )
    return Explanation(
        f"The mask in the model ({head.kind}, layer {head.layer}, head {head.head}): {model_input.short_text}",
        tuple(_mask_steps(trace, normalise, growing, rows, columns)),
        _compare(trace.output, growing),
        plot=GridPlot(head.weights, *PLOT_AXES, rows, columns),
    )


def _mask_steps(
    trace: AttentionTrace, normalise: str, growing: Tensor, rows: Sequence[str], columns: Sequence[str]
) -> list[Step]:
    """Show the masked computation, and `growing`, the outputs computed word by word with a growing set of keys."""
    numbers, n_masked = column_numbers(growing), int((~trace.mask).sum())
    text, formula = NORMALISATIONS[normalise]
    return [
        step("The score of every query with every key.", matrix("scores", trace.scores, rows, columns)),
        step(
            f"The mask removes {n_masked} of the {trace.mask.numel()} scores before the weights are computed.",
            expr("E + M"),
            masked_scores(trace.scores, trace.mask, normalise, rows, columns),
        ),
        step(f"{text} Masked positions get weight 0.", formula, matrix("weights", trace.weights, rows, columns)),
        step("The output of all words at once.", OUTPUT, matrix("output", trace.output, rows, numbers)),
        step(
            "The naive way: one word after the other, each with the keys and values up to itself only.",
            _GROWING_KEYS,
            matrix("with growing keys", growing, rows, numbers),
            max_difference(trace.output, growing),
        ),
    ]


def _compare(output: Tensor, growing: Tensor) -> str:
    n, difference = len(output), float((output - growing).abs().max())
    return (
        f"The two ways differ by {format_number(difference)}. The mask needs {n * n} scores in one matrix product; the "
        f"naive way needs {n * (n + 1) // 2}, but in {n} products one after the other. In training all words are "
        "known, so with the mask all of them are processed in parallel."
    )
