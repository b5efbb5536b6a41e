"""Coverage penalty: finished hypotheses that leave source tokens without attention are ranked lower."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch, forced_batch
from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.protocols import Memory
from regard.search.protocols import Hypothesis, Stepper
from regard.text.vocab import EOS, PAD

_ROWS = 64  # hypotheses whose attention is computed at once
_LEAST = 1e-9  # attention that a token without any is taken to have, because log 0 is not finite


@torch.inference_mode()
def rank_by_coverage(
    model: Stepper[Any], batch: Batch, hypotheses: Sequence[Sequence[Hypothesis]], beta: float
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence with β · cp added to their scores, best first.

    The search itself computes attention in a fused form without weights, so all hypotheses are read once more.
    """
    members = _members_with_attention(model, batch)
    rows = [(i, hypothesis.ids) for i, each in enumerate(hypotheses) for hypothesis in each]
    memories = [member.encoder(batch.src) for member in members]
    penalties = list[float]()
    for start in range(0, len(rows), _ROWS):
        sentences, targets = zip(*rows[start : start + _ROWS], strict=True)
        chosen = torch.tensor(sentences, device=batch.src.device)
        forced = forced_batch(None, targets).to(batch.src.device)
        pairs = zip(members, memories, strict=True)
        covered = [_attention_sums(member, memory.select(chosen), forced) for member, memory in pairs]
        penalties += coverage_penalty(torch.stack(covered).mean(0), _is_word(batch.src[chosen])).tolist()
    remaining = iter(penalties)
    scored = [[replace(each, score=each.score + beta * next(remaining)) for each in row] for row in hypotheses]
    return [sorted(row, key=lambda hypothesis: -hypothesis.score) for row in scored]


def coverage_penalty(attention: Tensor, is_word: Tensor) -> Tensor:
    """cp(X, Y) = Σ_i log(min(Σ_t a_ti, 1)), given Σ_t a_ti and which tokens i count;  [B, S] → [B]

    (Wu et al. 2016, eq. 14)
    """
    return attention.clamp(_LEAST, 1.0).log().masked_fill(~is_word, 0.0).sum(1)


def _attention_sums(model: EncoderDecoder, memory: Memory, forced: Batch) -> Tensor:
    """Return the attention that each source token gets from all target tokens [B, S], as a mean of layers and heads."""
    traces = model.decoder(forced.tgt_in, memory, need_trace=True).cross_traces
    weights = torch.stack([trace.weights.double().mean(1) for trace in traces]).mean(0)  # [B, T, S]
    return weights.masked_fill((forced.tgt_out == PAD)[:, :, None], 0.0).sum(1)


def _is_word(src: Tensor) -> Tensor:
    """[B, S]: neither padding nor the end"""
    return (src != PAD) & (src != EOS)


def _members_with_attention(model: Stepper[Any], batch: Batch) -> list[EncoderDecoder]:
    members, is_text = getattr(model, "members", (model,)), not batch.src.is_floating_point()
    if not (is_text and all(isinstance(m, EncoderDecoder) and m.attention_modules("cross") for m in members)):
        raise UserError("coverage needs a translator with cross-attention; leave coverage out for this model")
    return list(members)
