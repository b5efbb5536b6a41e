"""What training makes small: the smoothed cross-entropy, and R-Drop on top of it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.text.vocab import PAD


class LossConfig(Config):
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    """α of y_ls = (1 − α) y_hot + α / K"""
    r_drop: float = Field(0.0, ge=0.0)
    """α of R-Drop (Liang et al. 2021): two passes with other dropout must agree; 0: one pass"""


def smoothed_cross_entropy(log_probs: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """−Σ_t Σ_k y_ls log p over the tokens that are not padding, and −Σ_t log p(y_t) beside it.

    log_probs [B, T, V], targets [B, T] → two sums
    """
    real = targets != PAD
    nll = -log_probs.gather(-1, targets[..., None]).squeeze(-1)
    uniform = -log_probs.mean(-1)
    smoothed = (1 - smoothing) * nll + smoothing * uniform
    return smoothed.masked_fill(~real, 0.0).sum(), nll.detach().masked_fill(~real, 0.0).sum()


def disagreement(p: Tensor, q: Tensor, targets: Tensor) -> Tensor:
    """Σ_t KL(p‖q) + KL(q‖p) of log-probabilities [B, T, V] over the tokens that are not padding"""
    both = ((p.exp() - q.exp()) * (p - q)).sum(-1)
    return both.masked_fill(targets == PAD, 0.0).sum()


def loss_of_logits(logits: Tensor, targets: Tensor, config: LossConfig) -> tuple[Tensor, Tensor]:
    """The loss to differentiate and the plain negative log-likelihood, both summed over the target tokens.

    With R-Drop the batch stands there twice, one half behind the other.
    """
    log_probs = F.log_softmax(logits.float(), dim=-1)
    loss, nll = smoothed_cross_entropy(log_probs, targets, config.label_smoothing)
    if not config.r_drop:
        return loss, nll
    p, q = log_probs.chunk(2)
    apart = disagreement(p, q, targets.chunk(2)[0])
    # L = CE(p) + CE(q) + α/2 [KL(p‖q) + KL(q‖p)], halved so that it compares with one pass
    return (loss + config.r_drop / 2 * apart) / 2, nll / 2


def batch_loss(
    model: Callable[[Batch], Tensor],
    src: Tensor,
    tgt: Tensor,
    config: LossConfig,
    of_logits: Callable[[Tensor, Tensor, LossConfig], tuple[Tensor, Tensor]] = loss_of_logits,
) -> tuple[Tensor, Tensor]:
    """`loss_of_logits` of the model's answer to a batch, which R-Drop shows it twice."""
    if config.r_drop:
        src, tgt = torch.cat([src, src]), torch.cat([tgt, tgt])
    batch = Batch(src, tgt)
    return of_logits(model(batch), batch.tgt_out.contiguous(), config)
