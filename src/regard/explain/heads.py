"""Multi-head attention: several heads in parallel (S10, P22)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, Step, Table, matrix, max_difference, step, table
from regard.explain.formula import apply, expr, frac, power, sqrt, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.nn.attention import AttentionTrace, Heads, MultiHeadAttention

_WORDS = ("x₁", "x₂")
_HEAD_WEIGHTS = expr(
    sub("A", "h"), "=", apply("softmax", frac(expr(sub("Q", "h"), power(sub("K", "h"), "T")), sqrt("d / h")))
)


@torch.no_grad()
def explain_heads() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    module, x = two_head_attention(), torch.randn(1, 2, 4, generator=generator).double()
    output, trace = module(x, module.keys_values(x), need_trace=True)
    width = trace.q.shape[-1]
    separate_queries = torch.stack([x[0] @ w.T for w in module.query.weight.split(width)])
    return Explanation(
        "Multi-head attention: two heads of width 2 instead of one of width 4",
        (
            step("Two words of four numbers each; all matrices are drawn at random.", matrix("X", x[0], _WORDS)),
            step(
                "One matrix product gives the queries of all heads: each head has its own rows of W_Q, as if it were "
                "alone.",
                expr(sub("Q", "h"), "= X", sub("W", "h")),
                *_table_per_head("Q", trace.q[0]),
                max_difference(separate_queries, trace.q[0]),
            ),
            step(
                f"In each head the scores are divided by √(d/h) = √{width}.",
                _HEAD_WEIGHTS,
                *_table_per_head("weights", trace.weights[0]),
            ),
            step("The output of a head has the width of a head.", *_table_per_head("output", trace.output[0])),
            *_output_steps(module, trace, output, _WORDS),
            _widths_step(),
        ),
        f"{module.n_heads} heads of width {width}: each has its own weights, and together they need as many "
        "multiplications as one head of full width.",
    )


@torch.no_grad()
def explain_heads_on_model(model_input: ModelInput) -> Explanation:
    call = AttentionCall.of(model_input)
    module, trace = call.module, call.trace
    rows, columns = map(unique_labels, model_input.record.axis_tokens(call.kind))
    n, width = module.n_heads, trace.v.shape[-1]
    names = [f"head {i}" for i in range(n)]
    attended = [[columns[i] for i in row] for row in trace.weights[0].argmax(-1).T.tolist()]
    mean_of_largest = trace.weights[0].amax(-1).mean(-1)
    is_standard = (module.score_name, module.normalise) == ("scaled-dot", "softmax")
    return Explanation(
        f"The heads of the model's {call.kind} attention, layer {model_input.layer}: {model_input.short_text}",
        (
            step(f"{n} heads of width {width}.", _HEAD_WEIGHTS if is_standard else None),
            step("The token to which each head gives the largest weight.", table("token", names, attended, rows)),
            step("This largest weight, on average.", matrix("weight", mean_of_largest, (), names)),
            *_output_steps(module, trace, call.output, rows, "largest difference from the model's own run"),
        ),
        f"{n} heads of width {width} give {n * width} numbers per token, which W_O mixes.",
    )


@dataclass(frozen=True)
class AttentionCall:
    """One multi-head attention of a model while it processes a sentence."""

    kind: str
    module: MultiHeadAttention
    x: Tensor
    """Its input [1, T, D], from which it computes queries"""
    output: Tensor
    """Its output [1, T, D]"""
    trace: AttentionTrace

    @classmethod
    @torch.no_grad()
    def of(cls, model_input: ModelInput) -> "AttentionCall":
        """Record the chosen attention; if no kind was chosen, that of the encoder or else of the decoder."""
        kind = model_input.kind or ("encoder" if hasattr(model_input.model, "encoder") else "decoder")
        module = model_input.multi_head_attention(kind)
        calls: list[tuple[Tensor, Tensor]] = []

        def keep(_: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
            calls.append((inputs[0], outputs[0]))

        hook = module.register_forward_hook(keep)
        try:
            model_input.model(model_input.traced_batch)
        finally:
            hook.remove()
        [(x, output)] = calls
        return cls(kind, module, x, output, model_input.trace(kind))


def concatenate_heads(outputs: Tensor) -> Tensor:
    """[B, H, T, K] → [B, T, H·K]"""
    return outputs.transpose(1, 2).flatten(2)


def two_head_attention() -> MultiHeadAttention:
    """Make a module with two heads of width 2, with the same random weights in every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return MultiHeadAttention(Heads(4, 2, bias=False)).double()


def _output_steps(
    module: MultiHeadAttention,
    trace: AttentionTrace,
    output: Tensor,
    rows: Sequence[str],
    name: str = "largest difference",
) -> tuple[Step, Step]:
    """Show the last steps, and how far they are from `output`, the output of the module itself."""
    concatenated = concatenate_heads(trace.output)
    result = module.out(concatenated)
    return (
        step(
            "The outputs of the heads are concatenated.",
            expr("C = [", sub("Y", "0"), sub("Y", "1"), "…", "]"),
            matrix("C", concatenated[0], rows),
        ),
        step(
            "Multiply by W_O. For comparison, the module does all of this in one call.",
            expr("Y = C", sub("W", "O")),
            matrix("Y", result[0], rows),
            max_difference(result, output, name),
        ),
    )


def _widths_step() -> Step:
    """Show the shapes of the matrices for heads whose widths are not d/h."""
    d_k, d_v = 3, 1
    module = MultiHeadAttention(Heads(4, 2, bias=False, d_head=d_k, d_value=d_v))
    key, value = module.key_value.weight.split([module.n_heads * width for width in module.widths])
    weights = {"W_Q": module.query.weight, "W_K": key, "W_V": value, "W_O": module.out.weight}
    symbols = ("d × h · d_k", "d × h · d_k", "d × h · d_v", "h · d_v × d")
    cells = [(s, f"{w.shape[1]} × {w.shape[0]}") for s, w in zip(symbols, weights.values(), strict=True)]
    return step(
        f"The widths are free; d_k = d_v = d/h is only the usual choice. Two heads with d_k = {d_k} and d_v = {d_v}:",
        table("matrix", ("shape", "here"), cells, tuple(weights)),
    )


def _table_per_head(name: str, values: Tensor) -> list[Table]:
    columns = _WORDS if name == "weights" else ()
    return [matrix(f"{name} of head {i}", head, _WORDS, columns) for i, head in enumerate(values)]
