"""What linear maps do to similarities: why keys and queries differ from values (W12)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, Step, matrix, max_difference, step
from regard.explain.formula import OUTPUT, apply, expr, sub
from regard.explain.heads import AttentionCall
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.explain.similarity import COSINE, FRUIT, WORDS, word_vectors
from regard.nn.attention import attend_traced
from regard.nn.scores import Cosine

_FEATURES = ("technology", "fruit", "grammar")
_MAPS = {"fruit": (0.25, 1.0, 1.0), "technology": (1.0, 0.25, 1.0)}
"""How much each map keeps of each feature"""
_NEXT_WORDS = ("car", "apple", "phone")
_W_VALUE = ((0.5, 0.0, 1.0), (0.0, 1.0, 0.0), (0.5, 0.5, 0.5))
"""How much each feature speaks for each of the next words"""
_MAPPED_COSINE = apply("cos", "a M", "b M")


def explain_linear_maps() -> Explanation:
    words, x = tuple(WORDS), word_vectors(*WORDS)
    fruit = word_vectors(*FRUIT)
    w_value = torch.tensor(_W_VALUE, dtype=torch.float64)
    values = fruit @ w_value
    trace = attend_traced(fruit, fruit, values, "cosine")
    shares = " + ".join(
        f"{a:.2f} · {v:g}" for a, v in zip(trace.weights[0].tolist(), values[:, 1].tolist(), strict=True)
    )
    best = _NEXT_WORDS[int(trace.output[0].argmax())]
    return Explanation(
        "Linear maps change which words are similar",
        (
            step("Five words; each component is a feature.", matrix("words", x, words, _FEATURES)),
            step("Their similarities, before any map.", COSINE, matrix("cos", Cosine()(x, x), words, words)),
            *(_map_step(name, weights) for name, weights in _MAPS.items()),
            step(
                "Values come from another map: they need not tell which words are similar, but what a word contributes "
                "to the prediction. Here, how much it speaks for each next word in “I want to buy a _”: v_ij for word "
                "i and next word j.",
                expr("V = X", sub("W", "V")),
                matrix("W_V", w_value, _FEATURES, _NEXT_WORDS),
                matrix("V", values, FRUIT, _NEXT_WORDS),
            ),
            step(
                "“an apple and an orange”: the weights from the cosines by softmax (`regard explain mixing`).",
                matrix("weights", trace.weights, FRUIT, FRUIT),
            ),
            step(
                f"Weights times values. For example, Orange and “apple”: {shares}.",
                OUTPUT,
                matrix("y", trace.output, FRUIT, _NEXT_WORDS),
                max_difference(trace.output, trace.weights @ values),
            ),
        ),
        f"By the first map Apple is a fruit, by the second a device: a model learns maps for queries and keys in which "
        f"the words that belong together are similar. With another map, the values, Orange speaks for “{best}” "
        f"({format_number(float(trace.output[0].max()))}).",
        ("The slides leave the maps and the values v_ij as symbols; their numbers are chosen here.",),
    )


def _map_step(name: str, weights: tuple[float, ...]) -> Step:
    words = tuple(WORDS)
    m = torch.diag(torch.tensor(weights, dtype=torch.float64))
    mapped = word_vectors(*WORDS) @ m
    apple = Cosine()(mapped, mapped)[words.index("Apple")]
    orange, phone = (format_number(float(apple[words.index(word)])) for word in ("Orange", "Phone"))
    return step(
        f"A map that stresses {name}: cos(Apple, Orange) is now {orange}, cos(Apple, Phone) {phone}.",
        _MAPPED_COSINE,
        matrix(f"M ({name})", m, _FEATURES, _FEATURES),
        matrix(f"cos after M ({name})", Cosine()(mapped, mapped), words, words),
    )


@torch.no_grad()
def explain_linear_maps_on_model(model_input: ModelInput) -> Explanation:
    call = AttentionCall.of(model_input)
    if call.kind == "cross":
        raise UserError("linear-maps compares the tokens of one sequence; choose --kind encoder or decoder")
    head = model_input.head_record(call.kind)
    tokens = unique_labels(head.columns)
    x, q, k, v = (torch.as_tensor(part).double() for part in (call.x[0], head.q, head.k, head.v))
    similarities = {"inputs": Cosine()(x, x), "queries and keys": Cosine()(q, k), "values": Cosine()(v, v)}
    before, matched, values = similarities.values()
    return Explanation(
        f"Similarities before and after the maps of one head ({head.kind}, layer {head.layer}, head {head.head}): "
        f"{model_input.short_text}",
        (
            step(
                f"The inputs of the layer, of width {x.shape[1]}: how similar they are.",
                COSINE,
                matrix("cos(x, x)", before, tokens, tokens),
            ),
            step(
                f"W_Q and W_K map them to width {q.shape[1]}: how similar each query (row) is to each key (column).",
                apply("cos", sub("q", "i"), sub("k", "j")),
                matrix("cos(q, k)", matched, tokens, tokens),
            ),
            step(
                f"W_V maps them to width {v.shape[1]}: how similar the values are.",
                apply("cos", sub("v", "i"), sub("v", "j")),
                matrix("cos(v, v)", values, tokens, tokens),
            ),
        ),
        f"The most similar pair of different tokens: {_most_similar_pairs(similarities, tokens)}"
        if len(tokens) > 1
        else "There is only one token, so there is nothing to compare it with.",
    )


def _most_similar_pairs(similarities: dict[str, Tensor], tokens: Sequence[str]) -> str:
    """`inputs: a, b (0.61); values: …`"""
    pairs = []
    for name, cosines in similarities.items():
        i, j = divmod(int(cosines.clone().fill_diagonal_(-torch.inf).argmax()), len(tokens))
        pairs.append(f"{name}: {tokens[i]}, {tokens[j]} ({format_number(float(cosines[i, j]))})")
    return "; ".join(pairs) + "."
