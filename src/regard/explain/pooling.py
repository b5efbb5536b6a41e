"""Attention pooling: one vector for a set of any size, against the mean (P27)."""

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, GridPlot, Step, column_numbers, matrix, max_difference, step
from regard.explain.formula import SOFTMAX, expr, frac, sqrt, sub, sum_over
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.explain.similarity import DEVICE, FRUIT, word_vectors
from regard.nn.attention import AttentionTrace, attend, attend_traced
from regard.nn.pooling import AttentionPooling

_QUERY = (1.0, 1.0, 0.0)
_SCORES = expr(sub("e", "i"), "=", frac(expr("q ·", sub("x", "i")), sqrt("d")))
_LEARNED_SCORES = expr(
    sub("k", "i"), "= W", sub("x", "i"), ",", sub("e", "i"), "=", frac(expr("q ·", sub("k", "i")), sqrt("d"))
)
_POOLED = expr("y =", sum_over("i", sub("α", "i"), sub("x", "i")))
_MEAN = expr("m =", frac("1", "n"), sum_over("i", sub("x", "i")))


def explain_pooling() -> Explanation:
    q = torch.tensor([_QUERY], dtype=torch.float64)
    fruit, device = (_pool(q, words) for words in (FRUIT, DEVICE))
    reversed_ = _pool(q, FRUIT[::-1])
    grammar = float(fruit.weights[0, -2:].sum())
    return Explanation(
        "Attention pooling: one vector for a set of any size",
        (
            step(
                "One query for all sets. A model learns it; this one is chosen to look for fruit and devices.",
                matrix("q", q),
            ),
            *_set_steps(fruit, FRUIT, "“an apple and an orange”"),
            *_set_steps(device, DEVICE, "“an apple phone”"),
            step(
                "The order of the words does not matter: the same set, reversed.",
                max_difference(reversed_.output, fruit.output),
            ),
        ),
        f"{len(FRUIT)} words and {len(DEVICE)} words both give {q.shape[1]} numbers. The mean gives every word the "
        f"same weight; attention gives “And” and “An” {format_number(grammar)} together, instead of "
        f"{format_number(2 / len(FRUIT))}.",
        ("The mean is the special case of attention pooling with q = 0: all weights are then equal.",),
        GridPlot(fruit.weights.numpy(), "word", "query", ("q",), FRUIT),
    )


def _pool(q: Tensor, words: tuple[str, ...]) -> AttentionTrace:
    x = word_vectors(*words)
    return attend_traced(q, x, x)


def _set_steps(trace: AttentionTrace, words: tuple[str, ...], name: str) -> list[Step]:
    x = trace.v
    mean = x.mean(0)
    by_attention = attend(torch.zeros_like(trace.q), x, x)[0]
    return [
        step(f"{name}, {len(words)} words.", matrix("X", x, words, column_numbers(x))),
        step("The score of each word.", _SCORES, matrix("e", trace.scores, (), words)),
        step("Softmax over the set.", SOFTMAX, matrix("α", trace.weights, (), words)),
        step("The weighted sum is the vector of the set.", _POOLED, matrix("y", trace.output)),
        step(
            "For comparison, the mean.",
            _MEAN,
            matrix("m", mean),
            max_difference(by_attention[0], mean, "largest difference from attention with q = 0"),
        ),
    ]


@torch.no_grad()
def explain_pooling_on_model(model_input: ModelInput) -> Explanation:
    model, batch = model_input.model, model_input.traced_batch
    module: AttentionPooling | None = getattr(model, "pooling", None)
    if hasattr(model, "encoder"):
        memory = model.encoder(batch.src)
        states, tokens = memory.values, unique_labels(model_input.record.source_tokens)
    else:
        states, tokens = model.decoder(batch.tgt_in, None).hidden, unique_labels(model_input.record.read_tokens)
    mean = states[0].mean(0)
    x = matrix("X", states[0], tokens, column_numbers(states[0]))
    first = step(f"The model's states, one per token: {len(tokens)} vectors of width {len(mean)}.", x)
    if module is None:
        return _explain_mean(model_input, states, tokens, first)
    trace = module(states, memory.mask)
    weights = trace.weights[0, 0]
    largest = int(weights.argmax())
    return Explanation(
        f"The model's attention pooling: {model_input.short_text}",
        (
            first,
            step("The query that the model has learned.", matrix("q", module.query)),
            step(
                "A matrix, learned too, turns the states into keys. The score of each token:",
                _LEARNED_SCORES,
                matrix("e", trace.scores[0], (), tokens),
            ),
            step("Softmax over the text.", SOFTMAX, matrix("α", weights, (), tokens)),
            step(
                "The weighted sum is the vector of the text, from which the label is predicted.",
                _POOLED,
                matrix("y", trace.output[0]),
                max_difference(
                    weights @ states[0], model.embed(batch.src)[0], "largest difference from the model's own"
                ),
            ),
            step("For comparison, the mean, which gives every token the same weight.", _MEAN, matrix("m", mean)),
        ),
        f"The largest weight is {format_number(float(weights[largest]))}, of “{tokens[largest]}”; in the mean each of "
        f"the {len(tokens)} tokens has {format_number(1 / len(tokens))}. The two vectors are "
        f"{format_number(float((trace.output[0, 0] - mean).norm()))} apart.",
        plot=GridPlot(weights[None].numpy(), "token", "query", ("q",), tokens),
    )


def _explain_mean(model_input: ModelInput, states: Tensor, tokens: tuple[str, ...], first: Step) -> Explanation:
    """Explain a model without attention pooling: the mean of its states is attention with a query of zeros."""
    mean = states[0].mean(0)
    trace = attend_traced(torch.zeros(1, states.shape[2]), states[0], states[0])
    return Explanation(
        f"The mean of the model's states: {model_input.short_text}",
        (
            first,
            step("The mean is one vector for a text of any length.", _MEAN, matrix("m", mean)),
            step(
                "It is attention pooling with a query of zeros: all weights are equal.",
                _POOLED,
                matrix("α", trace.weights, (), tokens),
                max_difference(trace.output[0], mean),
            ),
        ),
        f"{len(tokens)} tokens become {len(mean)} numbers, and every token counts as much as any other.",
        ("A classifier learns such a query if it is trained with `--set model.pooling=attention`.",),
    )
