"""Stages of multi-head attention: projections, heads, scores, mask, weights, weighted sum, output matrix."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.models.stages.calls import ModuleCalls
from regard.models.stages.stage import BlockRecord
from regard.nn.attention import AttentionTrace, MultiHeadAttention, SelfAttention
from regard.nn.linear_attention import FEATURE_MAPS
from regard.nn.mixers import LinearAttention
from regard.nn.scores import Additive, Bilinear, Location

_ROUNDING = 1e-4
Weights = dict[str, tuple[Tensor, tuple[str, ...]] | None]


def attention_stages(
    record: BlockRecord, calls: ModuleCalls, part: str, attention: MultiHeadAttention, queries: str, memory: str
) -> str:
    """Add the stages of one attention module, which reads the values `queries` and `memory`; return its output."""
    trace: AttentionTrace = AttentionTrace(*(tensor[0] for tensor in calls.last(attention).output[1]))
    rows, columns = record.values[queries].axes[0], record.values[memory].axes[0]
    d_k, d_v = attention.widths
    n_keys = attention.n_kv_heads * d_k
    projected = calls.output(attention.key_value)
    weight, bias = attention.key_value.matrix, attention.key_value.bias
    biases = (None, None) if bias is None else (bias[:n_keys], bias[n_keys:])
    record.linear(f"{part}.query", queries, calls.output(attention.query), attention.query.matrix, attention.query.bias)
    record.linear(f"{part}.key", memory, projected[:, :n_keys], weight[:n_keys], biases[0])
    record.linear(f"{part}.value", memory, projected[:, n_keys:], weight[n_keys:], biases[1])
    for name, of, axis, width, n in (
        ("q", "query", rows, d_k, attention.n_heads),
        ("k", "key", columns, d_k, attention.n_kv_heads),
        ("v", "value", columns, d_v, attention.n_kv_heads),
    ):
        heads = record.values[f"{part}.{of}"].tensor.unflatten(-1, (n, width)).transpose(0, 1)
        times = attention.n_heads // n
        heads = heads.repeat_interleave(times, dim=0) if times > 1 else heads
        record.stage(
            f"{part}.{name}", "split-heads", (f"{part}.{of}",), heads, ("head", axis, "width"), heads=n, repeat=times
        )
    q, k = _positions_and_features(record, part, attention, trace)
    scores = _scores(record, calls, part, attention, trace, q, k)
    heads = weights_stages(record, part, trace, scores, f"{part}.v", attention.normalise)
    read = calls.input(attention.out)
    joined = trace.output.transpose(0, 1).flatten(1)
    name = record.stage(f"{part}.joined", "join-heads", (heads,), joined, (rows, "width"))
    if (read - joined).abs().max() > _ROUNDING:
        # Heads were switched off or replaced: what W_O reads is not what attention gave.
        name = record.given(f"{part}.changed", read, rows, "width")
    return record.linear(f"{part}.out", name, calls.output(attention.out), attention.out.matrix, attention.out.bias)


def _positions_and_features(
    record: BlockRecord, part: str, attention: MultiHeadAttention, trace: AttentionTrace
) -> tuple[str, str]:
    """Add the rotation by positions, or the feature map of linear attention; return the names of q and k."""
    names = f"{part}.q", f"{part}.k"
    axes = [record.values[name].axes for name in names]
    if isinstance(attention, LinearAttention):
        feature = next(name for name, function in FEATURE_MAPS.items() if function is attention.feature_map)
        settings: dict[str, Any] = {"feature": feature, "scale": trace.q.shape[-1] ** -0.25}
        record.stage(f"{names[0]}.features", "feature-map", names[:1], trace.q, axes[0], **settings)
        record.stage(f"{names[1]}.features", "feature-map", names[1:], trace.k, axes[1], **settings)
        return f"{names[0]}.features", f"{names[1]}.features"
    if isinstance(attention, SelfAttention) and attention.positions == "rotary":
        angles = attention.rotation(torch.arange(trace.q.shape[-2], device=trace.q.device), trace.q.dtype)
        cos = record.given(f"{part}.cos", angles.cos, axes[0][1], "width")
        sin = record.given(f"{part}.sin", angles.sin, axes[0][1], "width")
        record.stage(f"{names[0]}.rotated", "rotate", (names[0], cos, sin), trace.q, axes[0])
        record.stage(f"{names[1]}.rotated", "rotate", (names[1], cos, sin), trace.k, axes[1])
        return f"{names[0]}.rotated", f"{names[1]}.rotated"
    return names


def _scores(
    record: BlockRecord,
    calls: ModuleCalls,
    part: str,
    attention: MultiHeadAttention,
    trace: AttentionTrace,
    q: str,
    k: str,
) -> str:
    """Add the scores, and what is added to them; return the name of what is normalised."""
    score: str = "dot" if isinstance(attention, LinearAttention) else attention.score_name
    plain = calls.output(attention.score) if calls.has(attention.score) else trace.scores
    name = score_stage(record, part, score, attention.score, plain, q, k)
    if attention.score_bias == "none":
        return name
    axes = record.values[name].axes
    bias = record.given(f"{part}.{attention.score_bias}", trace.scores - plain, *axes)
    return record.stage(f"{part}.biased", "add", (name, bias), trace.scores, axes)


def score_stage(record: BlockRecord, part: str, score: str, module: nn.Module, scores: Tensor, q: str, k: str) -> str:
    """Add e(q, k) with the weights of the score, if it has any."""
    axes = (*record.values[q].axes[:-1], record.values[k].axes[-2])
    width = record.values[q].tensor.shape[-1]
    scale = width**-0.5 if score == "scaled-dot" else 1.0
    return record.stage(
        f"{part}.scores", "score", (q, k), scores, axes, _score_weights(module), score=score, scale=scale
    )


def _score_weights(score: nn.Module) -> Weights:
    matrix = ("width", "width")
    match score:
        case Bilinear():
            return {"weight": (score.weight.weight, matrix)}
        case Additive():
            return {
                "query.weight": (score.query.weight, matrix),
                "query.bias": (score.query.bias, ("width",)),
                "key.weight": (score.key.weight, matrix),
                "out.weight": (score.out.weight, matrix),
            }
        case Location():
            linear = score.position_scores
            return {"weight": (linear.weight, ("position", "width")), "bias": (linear.bias, ("position",))}
    return {}


def weights_stages(
    record: BlockRecord, part: str, trace: AttentionTrace, scores: str, values: str, normalise: str
) -> str:
    """Add mask, weights and their weighted sum; return the name of the sum."""
    axes = record.values[scores].axes
    mask = record.given(f"{part}.mask", trace.mask, *axes)
    weights = record.stage(f"{part}.weights", "normalise", (scores, mask), trace.weights, axes, normalise=normalise)
    return record.stage(f"{part}.heads", "weighted-sum", (weights, values), trace.output, (*axes[:-1], "width"))
