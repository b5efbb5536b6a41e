"""The shapes of all matrices in self-attention (W6)."""

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, Step, Table, matrix, max_difference, step, table
from regard.explain.formula import apply, expr, power, sub
from regard.explain.heads import AttentionCall, concatenate_heads, two_head_attention
from regard.explain.model_input import ModelInput
from regard.nn.attention import attend
from regard.nn.normalise import softmax


def explain_shapes() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    a, b, c = 4, 3, 5
    x, wq, wk, wv = (torch.randn(*size, generator=generator).double() for size in ((a, b), (c, a), (c, a), (c, a)))
    q, k, v = wq @ x, wk @ x, wv @ x
    scores = k.T @ q
    weights = softmax(scores.T, None).T
    y = v @ weights
    with_words_as_rows = attend(q.T, k.T, v.T, "dot")[0]
    transposed = expr(power("Y", "T"), "=", apply("softmax", expr(power("Q", "T"), "K")), power("V", "T"))
    return Explanation(
        "The shapes of self-attention, with words as columns",
        (
            step(
                "Words are columns: X has a numbers for each of the b words, and each matrix W has c rows.",
                _shape_table({"X": ("(a, b)", x), "W_Q, W_K, W_V": ("(c, a)", wq)}),
            ),
            step(
                "Queries, keys and values.",
                expr("Q =", sub("W", "Q"), "X"),
                _shape_table({"Q": ("(c, b)", q), "K": ("(c, b)", k), "V": ("(c, b)", v)}),
            ),
            step(
                "The score of every key with every query.",
                expr("A =", power("K", "T"), "Q"),
                _shape_table({"A": ("(b, b)", scores)}),
            ),
            step(
                "Softmax runs down each column, which then sums to 1.",
                expr(power("A", "'"), "=", apply("softmax", "A")),
                matrix("A′", weights),
                matrix("sums", weights.sum(0)),
            ),
            step(
                "The output again has one column per word.",
                expr("Y = V", power("A", "'")),
                _shape_table({"Y": ("(c, b)", y)}),
            ),
            step(
                "With words as rows, as in the library, everything is transposed.",
                transposed,
                max_difference(y.T, with_words_as_rows),
            ),
            _two_heads_step(generator),
        ),
        f"(a, b) = {_format_shape(x)} becomes (c, b) = {_format_shape(y)}. Only A is (b, b): time and memory grow with "
        "the square of the sentence length.",
    )


def _two_heads_step(generator: torch.Generator) -> Step:
    module, x = two_head_attention(), torch.randn(1, 2, 4, generator=generator).double()
    q, (k, v) = module.queries(x), module.keys_values(x)
    output = attend(q, k, v)[0]
    shapes = {
        "X": ("(4, 2)", x[0].T),
        "q of one head and word": ("(2, 1)", q[0, 0, :1].T),
        "output of one head and word": ("(2, 1)", output[0, 0, :1].T),
        "both heads concatenated, one word": ("(4, 1)", concatenate_heads(output)[0, :1].T),
    }
    text = "Two heads on two words of four numbers each: queries, keys and values of a head have half the width."
    return step(text, _shape_table(shapes, "two heads"))


def explain_shapes_on_model(model_input: ModelInput) -> Explanation:
    call = AttentionCall.of(model_input)
    module, trace = call.module, call.trace
    n_heads, n_rows, n_columns = module.n_heads, trace.q.shape[-2], trace.k.shape[-2]
    d_k, d_v = trace.q.shape[-1], trace.v.shape[-1]
    shapes = {
        "X": ("tokens × d_model", call.x[0]),
        "W_Q": ("d_model × heads · d_k", module.query.weight.T),
        "Q": ("heads × from × d_k", trace.q[0]),
        "K": ("heads × to × d_k", trace.k[0]),
        "V": ("heads × to × d_v", trace.v[0]),
        "weights": ("heads × from × to", trace.weights[0]),
        "output of the heads": ("heads × from × d_v", trace.output[0]),
        "concatenated": ("from × heads · d_v", concatenate_heads(trace.output)[0]),
        "times W_O": ("from × d_model", call.output[0]),
    }
    n = trace.weights[0].numel()
    return Explanation(
        f"The shapes in the model's {call.kind} attention, layer {model_input.layer}: {model_input.short_text}",
        (step("Words are rows here, as in the library.", _shape_table(shapes)),),
        f"d_k = {d_k} and d_v = {d_v}: the {n_heads} heads make {n_heads * d_v} numbers. There are {n_heads} · "
        f"{n_rows} · {n_columns} = {n:,} weights; for sentences of twice the length there would be {4 * n:,}.",
    )


def _shape_table(shapes: dict[str, tuple[str, Tensor]], name: str = "shape") -> Table:
    """Show for each name its shape as symbols, and the shape of the tensor."""
    cells = [(symbols, _format_shape(x)) for symbols, x in shapes.values()]
    return table(name, ("symbol", "here"), cells, tuple(shapes))


def _format_shape(x: Tensor) -> str:
    return f"({', '.join(str(n) for n in x.shape)})"
