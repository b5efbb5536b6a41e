"""A look-up table against attention: a hard and a soft match of keys (P16, P17, S6)."""

import torch
from torch import Tensor

from regard.explain.attention import PLOT_AXES
from regard.explain.explanation import Explanation, GridPlot, LinePlot, Step, Table, matrix, max_difference, step, table
from regard.explain.formula import OUTPUT, apply, expr, sub, sum_over, words
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.explain.score_steps import NORMALISATIONS
from regard.nn.attention import AttentionTrace, attend, attend_traced
from regard.nn.normalise import hardmax, softmax

_ENGLISH, _FRENCH = ("red", "green", "blue"), ("bleu", "rouge", "vert")
_WAVELENGTHS = (650.0, 530.0, 460.0)
_TRANSLATION = ((0, 0, 1), (1, 0, 0), (0, 1, 0))
"""W_Q: which English word each French word is"""
_QUERY, _BETWEEN = "vert", (0.0, 0.6, 0.4)
_STRETCH = 10  # scale of the scores of a query between two keys
_SCALES = (1, 2, 5, 10, 100)

_LOOKUP = expr(apply("table", "q"), "=", sub("v", "i"), words("where"), sub("k", "i"), "= q")
_GENERAL = expr(
    apply("A", "q", "K", "V"),
    "=",
    sum_over("i", sub("softmax", "i"), "(", apply("e", "q", sub("k", "i")), ")", sub("v", "i")),
)
_SCALED = apply("softmax", "s · e")
_NOTES = (
    "The recipe of attention: project to a common space, choose a similarity, match the keys against the query, "
    "normalise, weight the values.",
    "A search engine works the same way: your query is matched against titles and tags (keys), and pages (values) are "
    "returned.",
)


def explain_lookup() -> Explanation:
    w, keys = torch.tensor(_TRANSLATION, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    values = torch.tensor(_WAVELENGTHS, dtype=torch.float64)[:, None]
    one_hot = torch.eye(3, dtype=torch.float64)[_FRENCH.index(_QUERY)][None]
    q, between = one_hot @ w, torch.tensor([_BETWEEN], dtype=torch.float64)
    hard, soft = (attend_traced(q, keys, values, "dot", normalise=how) for how in ("hardmax", "softmax"))
    green = _WAVELENGTHS[_ENGLISH.index("green")]
    by_scale = [(s, softmax(s * soft.scores, None)) for s in _SCALES]
    rows = [[*weights[0].tolist(), f"{float(weights @ values):.1f}"] for _, weights in by_scale]
    return Explanation(
        "A look-up table and attention",
        (
            step(
                "A table of colours and their wavelengths in nm. It returns the value of the one key that "
                f"equals the query: for “green”, {green:g}.",
                _LOOKUP,
                table("key", ("value",), [(v,) for v in _WAVELENGTHS], _ENGLISH),
            ),
            step(
                f"Attention starts by projecting query and keys to a common space: the query “{_QUERY}” is in French.",
                expr("q", sub("W", "Q")),
                matrix("q", one_hot, (), _FRENCH),
                matrix("W_Q", w, _FRENCH, _ENGLISH),
                matrix("q W_Q", q, (), _ENGLISH),
            ),
            step(
                "Then choose a similarity, here the dot product, and match the query against every key.",
                expr(sub("e", "i"), "= q ·", sub("k", "i")),
                matrix("K", keys, _ENGLISH, _ENGLISH),
                matrix("e", hard.scores, (), _ENGLISH),
            ),
            step(
                f"Normalise the scores. {NORMALISATIONS['hardmax'][0]}",
                NORMALISATIONS["hardmax"][1],
                _weights("hard", hard),
            ),
            step("Or softmax: every key gets some weight.", NORMALISATIONS["softmax"][1], _weights("soft", soft)),
            step(
                "Last, weight the values. Hardmax returns what the table returns; softmax mixes in the other values.",
                _GENERAL,
                matrix("by hardmax", hard.output),
                matrix("by softmax", soft.output),
                max_difference(hard.output, green, "largest difference of hardmax from the table"),
            ),
            step(
                "As the scores are multiplied by a larger and larger s, softmax becomes hardmax.",
                _SCALED,
                table("scale", (*_ENGLISH, "value"), rows, [f"s = {s}" for s in _SCALES]),
            ),
            _between_step(between, keys, values),
        ),
        f"The table and attention by hardmax return {green:g}; attention by softmax returns "
        f"{format_number(float(soft.output))}, and {rows[-1][-1]} with s = {_SCALES[-1]}. Attention is a table with "
        "soft matches: it always returns something, and it has a gradient, so it can be learned.",
        _NOTES,
        _scale_plot(soft.scores),
    )


def _weights(name: str, trace: AttentionTrace) -> Table:
    return matrix(name, trace.weights, (), _ENGLISH)


def _between_step(q: Tensor, keys: Tensor, values: Tensor) -> Step:
    hard, soft = (attend(_STRETCH * q, keys, values, "dot", normalise=how)[0] for how in ("hardmax", "softmax"))
    return step(
        "A query that equals no key, between green and blue: the table has no answer. Hardmax takes the nearest key, "
        f"softmax (here with s = {_STRETCH}) a wavelength in between.",
        matrix("turquoise", q, (), _ENGLISH),
        matrix("turquoise, by hardmax", hard),
        matrix("turquoise, by softmax", soft),
    )


def _scale_plot(scores: Tensor) -> LinePlot:
    scales = torch.linspace(0, 10, 101).tolist()
    weights = [softmax(s * scores, None)[0].tolist() for s in scales]
    matching = _ENGLISH.index("green")
    keys = {"the key that matches": matching, "each of the others": matching - 1}
    curves = {name: tuple((s, w[i]) for s, w in zip(scales, weights, strict=True)) for name, i in keys.items()}
    return LinePlot(curves, "scale of the scores", "weight")


@torch.no_grad()
def explain_lookup_on_model(model_input: ModelInput) -> Explanation:
    head = model_input.head_record()
    rows, columns = unique_labels(head.rows), unique_labels(head.columns)
    scores, v = (torch.from_numpy(part).double() for part in (head.scores, head.v))
    mask = torch.from_numpy(head.mask)
    hard, soft = hardmax(scores, mask), softmax(scores, mask)
    best = hard.argmax(1)
    largest = soft.gather(1, best[:, None]).squeeze(1)
    matches = [(columns[i], weight) for i, weight in zip(best.tolist(), largest.tolist(), strict=True)]
    by_scale = [
        (
            float(weights.amax(1).mean()),
            float((weights - hard).abs().max()),
            float(((weights - hard) @ v).norm(dim=1).max()),
        )
        for weights in (softmax(s * scores, mask) for s in _SCALES)
    ]
    return Explanation(
        f"A head as a look-up table ({head.kind}, layer {head.layer}, head {head.head}): {model_input.short_text}",
        (
            step(
                "If this head were a table, each token would look up the key with the largest score. The last column "
                "is the weight that softmax gives to this key.",
                table("token", ("looks up", "weight"), matches, rows),
            ),
            step(
                NORMALISATIONS["hardmax"][0],
                NORMALISATIONS["hardmax"][1],
                matrix("hard", hard, rows, columns),
            ),
            step(
                "As the scores are multiplied by a larger and larger s, softmax becomes hardmax: the mean of the "
                "largest weights, and how far weights and outputs are from those of the table, at most.",
                _SCALED,
                matrix(
                    "scale",
                    by_scale,
                    [f"s = {s}" for s in _SCALES],
                    ("largest weight", "weights apart", "outputs apart"),
                ),
            ),
            step(
                "The output of the table: the value of one key for each token.",
                OUTPUT,
                matrix("output", hard @ v, rows),
            ),
        ),
        f"On average the key with the largest score gets {format_number(float(largest.mean()))} of the weight; a "
        "look-up table would give it 1.",
        plot=GridPlot(soft.numpy(), *PLOT_AXES, rows, columns),
    )
