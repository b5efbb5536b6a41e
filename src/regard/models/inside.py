"""A model's attention as records: of everything, or of one head with its queries, keys and values."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.protocols import AttentionTraces
from regard.models.record import KINDS, AttentionRecord, HeadRecord, Weights
from regard.nn.attention import AttentionTrace


def record_of(traces: AttentionTraces, source: tuple[str, ...], target: tuple[str, ...]) -> AttentionRecord:
    """Of a batch of one sentence, with the tokens that it consists of"""
    sizes = {"encoder": (len(source), len(source)), "decoder": (len(target),) * 2, "cross": (len(target), len(source))}
    encoder, decoder, cross = (
        _stacked([trace.weights for trace in getattr(traces, kind)], *sizes[kind]) for kind in KINDS
    )
    return AttentionRecord(source, target, encoder, decoder, cross)


def head_of(traces: AttentionTraces, record: AttentionRecord, kind: str, layer: int, head: int) -> HeadRecord:
    """One head of the same sentence"""
    weights = record.only(layer, head, kind).weights(kind)
    if not weights.size:
        raise UserError(f"this model has no {kind} attention to look at")
    trace: AttentionTrace = getattr(traces, kind)[layer]
    q, k, v, scores, mask, _ = (_array(part[0, head]) for part in trace)
    return HeadRecord(kind, layer, head, *record.tokens(kind), q, k, v, scores, mask.astype(bool), weights[0, 0])


def single(source: Sequence[int], target: Sequence[int], device: torch.device) -> Batch:
    """Ids with their specials, source as it is read and target as it is produced behind `target[0]`, as a batch"""
    src = torch.tensor([list(source)], dtype=torch.int64)
    return Batch.of(src, torch.tensor([list(target)], dtype=torch.int64)).to(device)


def _stacked(layers: Sequence[Tensor], n_from: int, n_to: int) -> Weights:
    """The one sentence's weights [layers, heads, from, to]; a model without such attention has no layers of it."""
    if not layers:
        return np.zeros((0, 0, n_from, n_to), dtype=np.float32)
    return np.stack([_array(layer[0]) for layer in layers])


def _array(tensor: Tensor) -> Weights:
    found: Weights = tensor.detach().float().cpu().numpy()
    return found
