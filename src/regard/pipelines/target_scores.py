"""Log-probabilities of given targets, computed for whole targets at once."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch, forced_batch, run_parts
from regard.text.vocab import PAD

_LOGITS = 2**24  # numbers that are computed at once
_GPU_LOGITS = 2**27


def target_log_probs(
    members: Sequence[Any],
    sources: Sequence[Sequence[int]] | None,
    targets: Sequence[Sequence[int]],
    vocab_size: int,
    device: torch.device,
) -> list[float]:
    """Return log p of each target, including its end, given its source, or None without sources.

    With several members, which form an ensemble, it is that of the mean of their probabilities.
    """
    order = sorted(range(len(targets)), key=lambda i: len(targets[i]))
    log_probs = [0.0] * len(targets)

    @torch.inference_mode()
    def score(batch: Batch) -> Tensor:
        of_tokens = torch.stack([_token_log_probs(model, batch) for model in members]).logsumexp(0)
        of_tokens = of_tokens - torch.tensor(float(len(members))).log()
        return of_tokens.masked_fill(batch.tgt_out == PAD, 0.0).sum(1)

    while order:
        n = max(1, (_GPU_LOGITS if device.type == "cuda" else _LOGITS) // (vocab_size * (len(targets[order[-1]]) + 1)))
        rows, order = order[-n:], order[:-n]
        batch = forced_batch(None if sources is None else [sources[i] for i in rows], [targets[i] for i in rows])
        for i, log_prob in zip(rows, torch.cat(list(run_parts(score, batch, device))).tolist(), strict=True):
            log_probs[i] = log_prob
    return log_probs


def _token_log_probs(model: Any, batch: Batch) -> Tensor:
    """Return log p of each token of the targets [B, T]."""
    logits = model(batch).double()
    return logits.gather(-1, batch.tgt_out[..., None])[..., 0] - logits.logsumexp(-1)
