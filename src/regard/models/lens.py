"""The logit lens: what a model would predict if it ended after each part of each layer.

The vectors after a part go through the last norm and the output layer. This is done where these are used on the same
positions: for the decoder, and for the encoder of an encoder-only model. The vectors of an encoder that a decoder
reads are never mapped to tokens, so they have no lens. A recurrent stack has one row, its prediction.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.models import Model
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly
from regard.models.intervention import Intervention
from regard.models.stack import masked_mean
from regard.models.stages.calls import ModuleCalls, borrowed_copy
from regard.models.stages.residual_stream import inner_stack, residual_stream
from regard.text.vocab import PAD

OUTPUT_ROW = ("output", "")


@dataclass(frozen=True)
class LensRow:
    """Predictions at every position after one part of the model."""

    block: str
    part: str
    top_ids: Tensor
    """[T, k]: the most likely ids, the most likely first"""
    top_probs: Tensor
    """[T, k]"""
    probs: Tensor
    """[T]: the probability of the token that was generated; NaN where there is none"""
    ranks: Tensor
    """[T]: its rank, 1 = the most likely; 0 where there is none"""


@torch.inference_mode()
def lens_rows(
    model: Model, batch: Batch, tokens: Tensor, k: int = 5, intervention: Intervention | None = None
) -> list[LensRow]:
    """Return the rows of the lens for a batch of one, in the order of the computation; the last is the prediction.

    tokens [T]: the tokens whose probabilities are followed, −1 for none
    """
    with borrowed_copy(model) as copied:
        name = "encoder" if isinstance(copied, EncoderOnly) else "decoder"
        stack = inner_stack(getattr(copied, name))
        calls = ModuleCalls([] if stack is None else [stack])
        logits = copied(batch, intervention)[0]
        calls.stop()
        if stack is None:
            return [_row(OUTPUT_ROW, logits, tokens, k)]
        rows = []
        for point in residual_stream(calls, name, stack):
            rows.append(_row((point.block, point.part), _predict(copied, stack, point.after, batch), tokens, k))
        return rows


def _predict(model: Model, stack: nn.Module, x: Tensor, batch: Batch) -> Tensor:
    """Apply the last norm and the output layer to vectors x [1, T, D] → logits [T, V]"""
    norm = stack.norm
    assert isinstance(norm, nn.Module)
    h = norm(x)
    if isinstance(model, EncoderOnly):
        if not model.predicts_label:
            return model.output(h if model.transform is None else model.transform(h))[0]
        mask = torch.ones(h.shape[:2], dtype=torch.bool) if batch.src.is_floating_point() else batch.src != PAD
        pooled = masked_mean(h, mask) if model.pooling is None else model.pooling(h, mask).output[:, 0]
        return model.output(pooled)
    h = h[:, batch.src.shape[1] :] if isinstance(model, DecoderOnly) else h
    return model.output(model.readout(h))[0]


def _row(name: tuple[str, str], logits: Tensor, tokens: Tensor, k: int) -> LensRow:
    log_probs = logits.double().log_softmax(-1)
    top = log_probs.topk(min(k, log_probs.shape[-1]), dim=-1)
    known = tokens.clamp(min=0)[:, None].to(log_probs.device)
    own = log_probs.gather(1, known)
    is_known = tokens.to(log_probs.device) >= 0
    ranks = torch.where(is_known, (log_probs > own).sum(1) + 1, 0)
    probs = torch.where(is_known, own[:, 0].exp(), torch.nan)
    return LensRow(*name, top.indices, top.values.exp(), probs, ranks)
