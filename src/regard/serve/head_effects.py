"""The effect of each head on the traced output: how likely the output is without it."""

from collections.abc import Callable
from dataclasses import replace

from regard.models.intervention import HeadIndex, Intervention
from regard.models.record import KINDS
from regard.nn.attention import MultiHeadAttention
from regard.pipelines.predictions import scored_tokens
from regard.serve.inspect import TraceResult

_LOGITS = 2**24  # numbers that are computed at once


def head_effects(
    result: TraceResult, n_rows: int, is_cancelled: Callable[[], bool]
) -> tuple[float, dict[HeadIndex, float]] | None:
    """Return log p of the traced output, and its change without each head; None if it was cancelled.

    Heads that the trace has switched off stay off. At most `n_rows` variants are computed at once.
    """
    query, model = result.query, result.query.pipeline.traced_model
    base = query.intervention or Intervention()
    already = base.off[0] if base.off else frozenset[HeadIndex]()
    heads = [
        (kind, layer, head)
        for kind in KINDS
        for layer, module in enumerate(model.attention_modules(kind))
        if isinstance(module, MultiHeadAttention)
        for head in range(module.n_heads)
        if (kind, layer, head) not in already
    ]
    size = max(1, len(result.predictions.tokens)) * query.pipeline.tgt_tokenizer.size
    n_rows = max(1, min(n_rows, _LOGITS // size))
    batch, tokens = query.batch(result.target), result.predictions.tokens
    before, deltas = sum(scored_tokens(model, batch, tokens, base)[0]), dict[HeadIndex, float]()
    for start in range(0, len(heads), n_rows):
        if is_cancelled():
            return None
        part = heads[start : start + n_rows]
        changed = replace(base, off=tuple(already | {head} for head in part))
        scores = scored_tokens(model, batch, tokens, changed, len(part))
        deltas |= {head: sum(row) - before for head, row in zip(part, scores, strict=True)}
    return before, deltas
