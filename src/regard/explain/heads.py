"""Several heads, and the shapes that everything has on the way: W6 and S10."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, Step, Table, difference, listing, matrix, step
from regard.explain.formula import frac, math, of, power, root, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.nn.attention import AttentionTrace, Heads, MultiHeadAttention, attend
from regard.nn.normalise import softmax

_WORDS = ("x₁", "x₂")
_HEAD = math(sub("A", "h"), "=", of("softmax", frac(math(sub("Q", "h"), power(sub("K", "h"), "T")), root("d / h"))))


def shapes() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    a, b, c = 4, 3, 5
    x, wq, wk, wv = (torch.randn(*size, generator=generator).double() for size in ((a, b), (c, a), (c, a), (c, a)))
    q, k, v = wq @ x, wk @ x, wv @ x
    scores = k.T @ q
    weights = softmax(scores.T, None).T
    y = v @ weights
    by_rows = attend(q.T, k.T, v.T, "dot")[0]
    turned = math(power("Y", "T"), "=", of("softmax", math(power("Q", "T"), "K")), power("V", "T"))
    return Explanation(
        "The shapes of self-attention, with words as columns",
        (
            step(
                "Words are columns: X has a numbers for each of b words, and each matrix W has c rows.",
                None,
                _sizes({"X": ("(a, b)", x), "W_Q, W_K, W_V": ("(c, a)", wq)}),
            ),
            step(
                "Queries, keys and values.",
                math("Q =", sub("W", "Q"), "X"),
                _sizes({"Q": ("(c, b)", q), "K": ("(c, b)", k), "V": ("(c, b)", v)}),
            ),
            step("Every key with every query.", math("A =", power("K", "T"), "Q"), _sizes({"A": ("(b, b)", scores)})),
            step(
                "Softmax goes down each column, which then sums to 1.",
                math(power("A", "'"), "=", of("softmax", "A")),
                matrix("A′", weights),
                matrix("sums", weights.sum(0)),
            ),
            step("The output has a column a word again.", math("Y = V", power("A", "'")), _sizes({"Y": ("(c, b)", y)})),
            step("With words as rows, as the library has them, all is turned over.", turned, difference(y.T, by_rows)),
            _two_heads(generator),
        ),
        f"(a, b) = {_size(x)} becomes (c, b) = {_size(y)}. Only A is (b, b): time and memory grow with the square of "
        "the length.",
    )


def _two_heads(generator: torch.Generator) -> Step:
    module, x = _module(4, 2), torch.randn(1, 2, 4, generator=generator).double()
    q, (k, v) = module.queries(x), module.keys_values(x)
    output = attend(q, k, v)[0]
    parts = {
        "X": ("(4, 2)", x[0].T),
        "q of one head and word": ("(2, 1)", q[0, 0, :1].T),
        "output of one head and word": ("(2, 1)", output[0, 0, :1].T),
        "both heads side by side, a word": ("(4, 1)", _side_by_side(output)[0, :1].T),
    }
    says = "Two heads on two words of four numbers: each head has queries, keys and values of half the width."
    return step(says, None, _sizes(parts, "two heads"))


def shapes_of_own(own: ModelInput) -> Explanation:
    module, kind, output, seen, x = at_work(own)
    heads_, rows, width, columns = module.n_heads, *seen.q.shape[-2:], seen.k.shape[-2]
    parts = {
        "X": ("tokens × d_model", x[0]),
        "W_Q": ("d_model × d_model", module.query.weight),
        "Q": ("heads × from × width", seen.q[0]),
        "K": ("heads × to × width", seen.k[0]),
        "V": ("heads × to × width", seen.v[0]),
        "weights": ("heads × from × to", seen.weights[0]),
        "output of the heads": ("heads × from × width", seen.output[0]),
        "side by side": ("from × d_model", _side_by_side(seen.output)[0]),
        "times W_O": ("from × d_model", output[0]),
    }
    n = seen.weights[0].numel()
    return Explanation(
        f"The shapes in the model's {kind} attention, layer {own.layer}: {own.quoted_text}",
        (step("Words are rows here, as in the code.", None, _sizes(parts)),),
        f"{heads_} heads of width {width} make {heads_ * width}. The weights are {heads_} · {rows} · {columns} = {n:,} "
        f"numbers; sentences of twice the length would make them {4 * n:,}.",
    )


@torch.no_grad()
def heads() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    module, x = _module(4, 2), torch.randn(1, 2, 4, generator=generator).double()
    output, seen = module(x, module.keys_values(x), need_trace=True)
    width = seen.q.shape[-1]
    alone = torch.stack([x[0] @ w.T for w in module.query.weight.split(width)])
    return Explanation(
        "Multi-head attention: two heads of width 2 in place of one of width 4",
        (
            step("Two words of four numbers; all matrices are drawn at random.", None, matrix("X", x[0], _WORDS)),
            step(
                "One matrix product makes the queries of all heads: a head has rows of W_Q of its own, as if alone.",
                math(sub("Q", "h"), "= X", sub("W", "h")),
                *_each("Q", seen.q[0]),
                difference(alone, seen.q[0]),
            ),
            step(
                f"In each head the scores are divided by √(d/h) = √{width}.", _HEAD, *_each("weights", seen.weights[0])
            ),
            step("The output of a head has the width of a head.", None, *_each("output", seen.output[0])),
            *_rejoined(module, seen, output, _WORDS),
        ),
        f"{module.n_heads} heads of width {width}: each has weights of its own, and all of them together multiply as "
        "many numbers as one head of the whole width.",
    )


@torch.no_grad()
def heads_of_own(own: ModelInput) -> Explanation:
    module, kind, output, seen, _ = at_work(own)
    rows, columns = map(unique_labels, own.record.axis_tokens(kind))
    n, width = module.n_heads, seen.q.shape[-1]
    every = [f"head {i}" for i in range(n)]
    best = [[columns[i] for i in row] for row in seen.weights[0].argmax(-1).T.tolist()]
    return Explanation(
        f"The heads of the model's {kind} attention, layer {own.layer}: {own.quoted_text}",
        (
            step(f"{n} heads of width {width}.", _HEAD if module.fused else None),
            step("Where each looks most.", None, listing("token", every, best, rows)),
            step("The part of its weight that goes there, on average.", None, matrix("weight", _part(seen), (), every)),
            *_rejoined(module, seen, output, rows, "largest difference from the model's own run"),
        ),
        f"{n} heads of width {width} give {n * width} numbers a token, which W_O mixes.",
    )


def _part(seen: AttentionTrace) -> Tensor:
    """[heads]: the greatest weight of a row, a mean over the rows"""
    return seen.weights[0].amax(-1).mean(-1)


def _rejoined(
    module: MultiHeadAttention,
    seen: AttentionTrace,
    output: Tensor,
    rows: Sequence[str],
    name: str = "largest difference",
) -> tuple[Step, Step]:
    joined = _side_by_side(seen.output)
    mapped = module.out(joined)
    return (
        step(
            "The outputs stand side by side.",
            math("C = [", sub("Y", "0"), sub("Y", "1"), "…", "]"),
            matrix("C", joined[0], rows),
        ),
        step(
            "Times W_O; and beside it the same by the module in one go.",
            math("Y = C", sub("W", "O")),
            matrix("Y", mapped[0], rows),
            difference(mapped, output, name),
        ),
    )


@torch.no_grad()
def at_work(own: ModelInput) -> tuple[MultiHeadAttention, str, Tensor, AttentionTrace, Tensor]:
    """The attention that was asked for: its kind, its output in the model's own run, the plain form, its input"""
    kind = own.kind or ("encoder" if hasattr(own.model, "encoder") else "decoder")
    module, calls = own.module(kind), []
    hook = module.register_forward_hook(lambda _, given, out: calls.append((given, out[0])))
    try:
        own.model(own.traced_batch)
    finally:
        hook.remove()
    [(given, output)] = calls
    seen: AttentionTrace = module(*(part for part in given if not isinstance(part, bool)), need_trace=True)[1]
    return module, kind, output, seen, given[0]


def _module(d_model: int, n_heads: int) -> MultiHeadAttention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return MultiHeadAttention(Heads(d_model, n_heads, bias=False)).double()


def _side_by_side(outputs: Tensor) -> Tensor:
    return outputs.transpose(1, 2).flatten(2)


def _each(name: str, parts: Tensor) -> list[Table]:
    columns = _WORDS if name == "weights" else ()
    return [matrix(f"{name} of head {i}", part, _WORDS, columns) for i, part in enumerate(parts)]


def _sizes(parts: dict[str, tuple[str, Tensor]], name: str = "shape") -> Table:
    return listing(name, ("symbol", "here"), [(said, _size(x)) for said, x in parts.values()], tuple(parts))


def _size(x: Tensor) -> str:
    return f"({', '.join(str(n) for n in x.shape)})"
