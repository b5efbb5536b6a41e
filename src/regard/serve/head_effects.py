"""The effect of switching each head off: how much less likely the traced output becomes."""

from collections.abc import Callable

from regard.models.head_mask import HeadIndex, HeadMask
from regard.models.record import KINDS
from regard.nn.attention import MultiHeadAttention
from regard.serve.inspect import TraceResult
from regard.serve.predictions import forced_log_probs


def head_effects(
    result: TraceResult, n_rows: int, is_cancelled: Callable[[], bool]
) -> tuple[float, dict[HeadIndex, float]] | None:
    """Return log p of the traced output, and its change without each head; None if it was cancelled.

    Heads that the trace has switched off stay off. `n_rows` variants are computed at once.
    """
    query, model = result.query, result.query.pipeline.traced_model
    already = frozenset() if query.head_mask is None else query.head_mask.off
    heads = [
        (kind, layer, head)
        for kind in KINDS
        for layer, module in enumerate(model.attention_modules(kind))
        if isinstance(module, MultiHeadAttention)
        for head in range(module.n_heads)
        if (kind, layer, head) not in already
    ]

    def log_prob(mask: HeadMask | None) -> float:
        return sum(forced_log_probs(query.pipeline, query.encoded, [result.target], mask)[0])

    base, deltas = log_prob(query.head_mask), dict[HeadIndex, float]()
    for head in heads:
        if is_cancelled():
            return None
        deltas[head] = log_prob(HeadMask(already | {head})) - base
    return base, deltas
