"""What a mask does: S9."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.explain.attention import NORMALISED, hidden_scores, normaliser_of
from regard.explain.explanation import Explanation, GridPlot, Step, difference, matrix, numbered, step
from regard.explain.formula import OUTPUT, math, of, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.nn.attention import AttentionTrace, attend, attend_traced
from regard.nn.masks import causal_mask
from regard.nn.normalise import NORMALISERS

_WORDS = ("I", "love", "you", "too")
_GROWING = math(sub("y", "t"), "=", of("A", sub("q", "t"), sub("K", "≤t"), sub("V", "≤t")))


def masking() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(4, 3, generator=generator).double() for _ in range(3))
    seen = attend_traced(q, k, v, mask=causal_mask(4, 4))
    growing = torch.cat([attend(q[t : t + 1], k[: t + 1], v[: t + 1])[0] for t in range(len(q))])
    given = (matrix(name, x, _WORDS, numbered(x)) for name, x in (("Q", q), ("K", k), ("V", v)))
    return Explanation(
        "Masked self-attention: no word sees what stands behind it",
        (
            step("Queries, keys and values of four words, drawn at random: the rule holds for any.", None, *given),
            *_masked(seen, "softmax", growing, _WORDS, _WORDS),
        ),
        _compared(seen.output, growing),
        picture=GridPlot(seen.weights.numpy(), "looked at", "looks", _WORDS, _WORDS),
    )


def masking_of_own(own: ModelInput) -> Explanation:
    head = own.head_record("decoder")
    rows, columns, how = unique_labels(head.rows), unique_labels(head.columns), normaliser_of(head)
    q, k, v, e, mask, a = map(torch.from_numpy, (head.q, head.k, head.v, head.scores, head.mask, head.weights))
    seen = AttentionTrace(q, k, v, e, mask, a)
    growing = torch.cat([NORMALISERS[how](e[t : t + 1, sees], None) @ v[sees] for t, sees in enumerate(mask)])
    return Explanation(
        f"The mask in the model ({head.kind}, layer {head.layer}, head {head.head}): {own.quoted_text}",
        tuple(_masked(seen, how, growing, rows, columns)),
        _compared(seen.output, growing),
        (),
        GridPlot(head.weights, "looked at", "looks", rows, columns),
    )


def _masked(seen: AttentionTrace, how: str, growing: Tensor, rows: Sequence[str], columns: Sequence[str]) -> list[Step]:
    places, n_hidden = numbered(growing), int((~seen.mask).sum())
    hidden = hidden_scores(seen.scores, seen.mask, how, rows, columns)
    says, formula = NORMALISED[how]
    return [
        step("Scores of every query with every key.", None, matrix("scores", seen.scores, rows, columns)),
        step(
            f"The mask takes {n_hidden} of {seen.mask.numel()} away before the weights are made.", math("E + M"), hidden
        ),
        step(f"{says} What is masked gets 0.", formula, matrix("weights", seen.weights, rows, columns)),
        step("The output of all words at once.", OUTPUT, matrix("output", seen.output, rows, places)),
        step(
            "The naive way: for each word a set of keys and values that ends with it, one after the other.",
            _GROWING,
            matrix("with growing keys", growing, rows, places),
            difference(seen.output, growing),
        ),
    ]


def _compared(output: Tensor, growing: Tensor) -> str:
    n, apart = len(output), float((output - growing).abs().max())
    return (
        f"The two differ by {number(apart)}. The mask computes {n * n} scores in one product of matrices; the growing "
        f"set {n * (n + 1) // 2}, but in {n} products one after the other. In training all words are known: with the "
        "mask none has to wait."
    )
