"""A Transformer block in numbers: LayerNorm, attention, residual, feed-forward; pre-LN and post-LN (P19, P4, P8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.explain.attention import LECTURE_X
from regard.explain.explanation import Explanation, Step, Table, column_numbers, matrix, max_difference, step
from regard.explain.formula import apply, brackets, expr, frac, power, sqrt, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.models.layers import DecoderLayer, EncoderLayer, LayerConfig, Source
from regard.models.stack import StackDecoder, StackEncoder
from regard.nn.attention import Heads, SelfAttention
from regard.nn.feedforward import GatedFeedForward
from regard.nn.mixers import LinearAttention, Window
from regard.nn.residual import Residual, RMSNorm

_WORDS = ("x₁", "x₂", "x₃")
_DROPOUT = 0.25

_LAYER_NORM = expr(
    apply("LN", "x"), "=", frac("x − μ", sqrt(expr(power("σ", "2"), "+ ε"))), "· g + b",
)  # fmt: skip
_RMS_NORM = expr(apply("RMS", "x"), "=", frac("x", sqrt(expr("mean", power("x", "2"), "+ ε"))), "· g")
_GELU = expr(
    apply("FFN", "x"), "=", sub("W", "2"), apply("φ", expr(sub("W", "1"), "x +", sub("b", "1"))), "+", sub("b", "2")
)
_SWIGLU = expr(
    apply("FFN", "x"), "=", sub("W", "2"), brackets(apply("SiLU", expr(sub("W", "g"), "x")), "⊙", sub("W", "1"), "x")
)
_PRE = expr("x +", apply("f", apply("LN", "x")))
_POST = apply("LN", expr("x +", apply("f", "x")))


@dataclass(frozen=True)
class _SubLayer:
    """One part of a block: f, and the residual connection around it."""

    name: str
    residual: Residual
    f: Callable[[Tensor], Tensor]
    feed_forward: Any = None
    """The feed-forward layer, if f is one"""


@torch.no_grad()
def explain_block() -> Explanation:
    x = torch.tensor([LECTURE_X], dtype=torch.float64)
    pre, post = _lecture_layer("pre"), _lecture_layer("post")
    pre_steps, y_pre = _block_steps(_sublayers(pre, None, None), x, _WORDS)
    post_steps, y_post = _block_steps(_sublayers(post, None, None), x, _WORDS)
    outputs = {"input": x[0], "pre-LN": y_pre[0], "post-LN": y_post[0]}
    lengths = torch.stack([y.norm(dim=1) for y in outputs.values()], 1)
    means = torch.stack([y.mean(1) for y in outputs.values()], 1)
    return Explanation(
        "A Transformer block in numbers: pre-LN and post-LN",
        (
            step(
                "The three words of `regard explain attention`, and one layer with two heads of width 2 and a "
                "feed-forward layer of width 8. Its weights are random.",
                matrix("X", x[0], _WORDS, column_numbers(x[0])),
            ),
            step(
                "First pre-LN: LayerNorm comes before each part f of the layer, inside the residual connection.", _PRE
            ),
            *pre_steps,
            step(
                "This is the output of the layer with pre-LN, compared with the library's own.",
                max_difference(y_pre, pre(x, None)[0], "largest difference from the library's layer (pre-LN)"),
            ),
            step(
                "Now post-LN, as in the original paper, with the same weights: LayerNorm comes after each sum.", _POST
            ),
            *post_steps,
            step(
                "This is the output of the layer with post-LN, compared with the library's own.",
                max_difference(y_post, post(x, None)[0], "largest difference from the library's layer (post-LN)"),
            ),
            step(
                "Side by side: the mean and the length of each word's vector.",
                matrix("mean", means, _WORDS, tuple(outputs)),
                matrix("length", lengths, _WORDS, tuple(outputs)),
            ),
            _dropout_step(pre, x),
        ),
        "With pre-LN the input itself is part of the output, so it passes through any number of layers; with post-LN "
        f"every output has mean 0 and length √d = {format_number(float(lengths[0, 2]))}.",
        (
            "Attention moves information between words, but only averages their values; the feed-forward layer "
            "computes something new from each word. `regard lab core` shows what repeated averaging alone does.",
        ),
    )


@torch.no_grad()
def _lecture_layer(norm: str) -> EncoderLayer:
    """Make a layer with the same random weights in every call."""
    heads = Heads(4, 2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = LayerConfig(heads, 8, _DROPOUT, norm, "layer", "gelu", True)
        return EncoderLayer(config, SelfAttention(heads, causal=False)).double().eval()


def _dropout_step(layer: EncoderLayer, x: Tensor) -> Step:
    """Show dropout on the output of the feed-forward layer, as in training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        y = layer.feedforward(x)
        dropped = nn.functional.dropout(y, _DROPOUT)
    return step(
        "Only in training, residual dropout: each number that a sub-layer adds becomes 0 with probability "
        f"{_DROPOUT:g}, and the others are divided by {1 - _DROPOUT:g}. The same is done to the sum of embedding and "
        "position.",
        expr("x +", apply("dropout", apply("f", "x"))),
        matrix("FFN(X)", y[0], _WORDS, column_numbers(y[0])),
        matrix("after dropout", dropped[0], _WORDS, column_numbers(y[0])),
    )


@torch.no_grad()
def explain_block_on_model(model_input: ModelInput) -> Explanation:
    kind, layer, inputs, output = _call_layer(model_input)
    source, mask = (inputs[1], inputs[2]) if isinstance(layer, DecoderLayer) else (None, inputs[1])
    rows = unique_labels(model_input.record.axis_tokens(kind)[1])
    sublayers = _sublayers(layer, source, mask)
    steps, y = _block_steps(sublayers, inputs[0], rows)
    is_pre = sublayers[0].residual.pre
    before, after = (format_number(float(z[0].norm(dim=1).mean())) for z in (inputs[0], y))
    return Explanation(
        f"Layer {model_input.layer} of the model's {kind}, {'pre' if is_pre else 'post'}-LN: {model_input.short_text}",
        (
            step("The input of the layer.", matrix("x", inputs[0][0], rows, column_numbers(inputs[0][0]))),
            *steps,
            step(
                f"All of it, {' → '.join(sublayer.name for sublayer in sublayers)}, compared with the model.",
                _PRE if is_pre else _POST,
                max_difference(y, output, "largest difference from the model's own layer"),
            ),
        ),
        f"On average a vector has length {before} before the layer and {after} after it.",
    )


def _call_layer(model_input: ModelInput) -> tuple[str, nn.Module, tuple[Any, ...], Tensor]:
    """Run the model; return the side of the chosen layer, the layer, its inputs and its output [1, T, D]."""
    model, kind = model_input.model, "decoder" if model_input.kind == "cross" else model_input.kind
    stacks = {side: getattr(model, side, None) for side in ("encoder", "decoder") if kind in (side, None)}
    kind, stack = next(((k, s) for k, s in stacks.items() if isinstance(s, StackEncoder | StackDecoder)), (kind, None))
    if kind is None or stack is None:
        raise UserError(
            "there are no Transformer blocks to show; for an RNN translator use `regard explain seq2seq-step`"
        )
    if model_input.layer >= len(stack.layers):
        raise UserError(f"there is no layer {model_input.layer}; this model has 0 to {len(stack.layers) - 1}")
    layer, calls, batch = stack.layers[model_input.layer], [], model_input.traced_batch
    hook = layer.register_forward_hook(lambda _, inputs, outputs: calls.append((inputs, outputs[0])))
    try:
        model(batch)
    finally:
        hook.remove()
    [(inputs, output)] = calls
    return kind, layer, inputs, output


def _sublayers(layer: Any, source: Source | None, mask: Tensor | None) -> list[_SubLayer]:
    parts = []
    if layer.mixer is not None:
        parts.append(_SubLayer(_mixer_name(layer.mixer), layer.mixer_residual, lambda h: layer.mixer(h, mask)[0]))
    if source is not None:
        keys_values, source_mask = source
        parts.append(
            _SubLayer("cross-attention", layer.cross_residual, lambda h: layer.cross(h, keys_values, source_mask)[0])
        )
    return [*parts, _SubLayer("feed-forward", layer.feedforward_residual, layer.feedforward, layer.feedforward)]


def _mixer_name(mixer: nn.Module) -> str:
    if isinstance(mixer, SelfAttention):
        return "masked self-attention" if mixer.causal else "self-attention"
    if isinstance(mixer, LinearAttention):
        return "linear self-attention"
    return "window of tokens" if isinstance(mixer, Window) else "state space"


def _block_steps(sublayers: Sequence[_SubLayer], x: Tensor, rows: Sequence[str]) -> tuple[list[Step], Tensor]:
    """Work through the parts of a block; return the steps and the output [1, T, D]."""
    steps: list[Step] = []
    for part in sublayers:
        h = x
        if part.residual.pre:
            steps.append(_norm_step(part.residual.norm, x, rows, f"before {part.name}"))
            h = part.residual.norm(x)
        y = part.f(h)
        steps += [_function_step(part, h, y, rows), _sum_step(part, x, y, rows)]
        x = x + y
        if not part.residual.pre:
            steps.append(_norm_step(part.residual.norm, x, rows, f"after {part.name}"))
            x = part.residual.norm(x)
    return steps, x


def _norm_step(norm: nn.Module, x: Tensor, rows: Sequence[str], where: str) -> Step:
    by_hand = _normalise_by_hand(norm, x)
    is_rms = isinstance(norm, RMSNorm)
    mean, deviation = x[0].mean(1), x[0].var(1, unbiased=False).sqrt()
    return step(
        f"{'RMSNorm' if is_rms else 'LayerNorm'} {where}: each word is normalised by its own numbers.",
        _RMS_NORM if is_rms else _LAYER_NORM,
        None if is_rms else matrix("word", torch.stack([mean, deviation], 1), rows, ("μ", "σ")),
        _vectors(f"norm {where}", by_hand, rows),
        max_difference(by_hand, norm(x), "largest difference from the library's norm"),
    )


def _normalise_by_hand(norm: Any, x: Tensor) -> Tensor:
    if isinstance(norm, RMSNorm):
        return x / ((x**2).mean(-1, keepdim=True) + (norm.eps or torch.finfo(x.dtype).eps)).sqrt() * norm.weight
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred**2).mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def _function_step(part: _SubLayer, h: Tensor, y: Tensor, rows: Sequence[str]) -> Step:
    layer = part.feed_forward
    if layer is None:
        return step(f"The output of {part.name} for each word.", _vectors(part.name, y, rows))
    if isinstance(layer, GatedFeedForward):
        text, formula, inner = "SwiGLU", _SWIGLU, None
    else:
        text, formula, inner = type(layer.activation).__name__, _GELU, layer.activation(layer.inner(h))
    return step(
        f"The feed-forward layer with {text}, for each word alone: wide in between, then the width of the word again.",
        formula,
        None if inner is None else _vectors(f"{text}(W₁ x + b₁)", inner, rows),
        _vectors(part.name, y, rows),
    )


def _sum_step(part: _SubLayer, x: Tensor, y: Tensor, rows: Sequence[str]) -> Step:
    return step(
        f"The residual connection adds what {part.name} computed to its input.",
        expr("x +", apply("f", apply("LN", "x") if part.residual.pre else "x")),
        _vectors(f"x + {part.name}", x + y, rows),
    )


def _vectors(name: str, x: Tensor, rows: Sequence[str]) -> Table:
    """A table of x [1, T, D]"""
    return matrix(name, x[0], rows, column_numbers(x[0]))
