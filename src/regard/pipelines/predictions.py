"""What a model predicts at every position of an input: the most likely tokens, and the actual one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.models.intervention import Intervention
from regard.pipelines.encoded_input import EncodedInput
from regard.text.vocab import BOS, PAD, SPECIALS

_LOGITS = 2**24  # numbers that are computed at once


@dataclass(frozen=True)
class Predictions:
    """One row per position."""

    tokens: tuple[int, ...]
    """The actual token"""
    log_probs: Tensor
    """[T]: of the actual token"""
    entropies: Tensor
    """[T], in bits"""
    top_ids: Tensor
    """[T, k]: most likely first"""
    top_log_probs: Tensor
    """[T, k]"""

    @classmethod
    def of(cls, log_probs: Tensor, tokens: Sequence[int], n_top: int) -> "Predictions":
        """log_probs [T, V]"""
        chosen = torch.tensor(tokens, dtype=torch.int64, device=log_probs.device)[:, None]
        own = log_probs.gather(1, chosen)[:, 0]
        entropy = -(log_probs.exp() * log_probs).nan_to_num().sum(-1) / torch.log(torch.tensor(2.0))
        n = min(n_top, int((log_probs > -torch.inf).sum(-1).amin()) if len(log_probs) else n_top)
        top = log_probs.topk(n, dim=-1)
        return cls(tuple(tokens), own.cpu(), entropy.cpu(), top.indices.cpu(), top.values.cpu())

    @property
    def n_bytes(self) -> int:
        tensors = (self.log_probs, self.entropies, self.top_ids, self.top_log_probs)
        return 8 * len(self.tokens) + sum(tensor.nbytes for tensor in tensors)


@torch.inference_mode()
def token_log_probs(model: Model, batch: Batch, intervention: Intervention | None = None) -> Tensor:
    """log p [T, V] of the token at each position of a batch of one: the next token, the source token or the label"""
    return _logits(model, batch, intervention)[0].log_softmax(-1)


@torch.inference_mode()
def scored_tokens(
    model: Model, batch: Batch, tokens: Sequence[int], intervention: Intervention | None = None, n_rows: int = 1
) -> list[list[float]]:
    """Return log p of these tokens, one per position of a batch of one, in each of `n_rows` equal rows.

    An intervention may differ from row to row.
    """
    repeated = Batch(*(tensor.expand(n_rows, *tensor.shape[1:]) for tensor in batch.tensors()))
    logits = _logits(model, repeated, intervention)
    ids = torch.tensor(tokens, dtype=torch.int64, device=logits.device).expand(n_rows, -1)
    scores: list[list[float]] = (logits.gather(-1, ids[..., None])[..., 0] - logits.logsumexp(-1)).tolist()
    return scores


def _logits(model: Model, batch: Batch, intervention: Intervention | None) -> Tensor:
    logits: Tensor = model(batch, intervention).double()
    if isinstance(model, EncoderOnly) and model.predicts_label:
        logits[..., : len(SPECIALS)] = -torch.inf  # no labels
    return logits


@torch.inference_mode()
def forced_log_probs(
    model: Model,
    encoded: EncodedInput,
    targets: Sequence[Sequence[int]],
    intervention: Intervention | None = None,
) -> list[tuple[float, ...]]:
    """Return log p of each token of each target that the model is forced to generate."""
    width = max(map(len, targets), default=0)
    n_rows = max(1, _LOGITS // (max(1, width) * model.output.out_features))
    results: list[tuple[float, ...]] = []
    for start in range(0, len(targets), n_rows):
        rows = targets[start : start + n_rows]
        ids = torch.tensor([[BOS, *row, *[PAD] * (width - len(row))] for row in rows], device=encoded.src.device)
        batch = Batch.of(encoded.src.expand(len(rows), *encoded.src.shape[1:]), ids)
        logits = model(batch, intervention).double()
        scores = logits.gather(-1, batch.tgt_out[..., None])[..., 0] - logits.logsumexp(-1)
        results += [tuple(of_row[: len(row)]) for of_row, row in zip(scores.tolist(), rows, strict=True)]
    return results
