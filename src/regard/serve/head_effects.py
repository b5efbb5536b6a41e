"""The effect of changes on the traced output: all its tokens scored again, and each head switched off in turn."""

from collections.abc import Callable
from dataclasses import replace

import torch

from regard.data.batch import Batch
from regard.models.encoder_only import EncoderOnly
from regard.models.intervention import HeadIndex, Intervention
from regard.models.record import KINDS
from regard.nn.attention import MultiHeadAttention
from regard.serve.inspect import TraceResult
from regard.text.vocab import SPECIALS

_LOGITS = 2**24  # numbers that are computed at once


@torch.inference_mode()
def traced_log_probs(result: TraceResult, intervention: Intervention | None, n_rows: int = 1) -> list[list[float]]:
    """Return log p of each token that the trace predicts, for `n_rows` rows that the intervention may distinguish."""
    model, one = result.query.pipeline.traced_model, result.query.batch(result.target)
    logits = model(Batch(*(tensor.expand(n_rows, *tensor.shape[1:]) for tensor in one.tensors())), intervention)
    logits = logits.double()
    if isinstance(model, EncoderOnly) and model.predicts_label:
        logits[..., : len(SPECIALS)] = -torch.inf
    tokens = torch.tensor(result.predictions.tokens, device=logits.device).expand(n_rows, -1)
    scores = logits.gather(-1, tokens[..., None])[..., 0] - logits.logsumexp(-1)
    return scores.tolist()


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
    before, deltas = sum(traced_log_probs(result, base)[0]), dict[HeadIndex, float]()
    for start in range(0, len(heads), n_rows):
        if is_cancelled():
            return None
        part = heads[start : start + n_rows]
        changed = replace(base, off=tuple(already | {head} for head in part))
        scores = traced_log_probs(result, changed, len(part))
        deltas |= {head: sum(row) - before for head, row in zip(part, scores, strict=True)}
    return before, deltas
