"""The training loss: label-smoothed cross-entropy, with R-Drop and guided alignment if they are on."""

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch
from regard.errors import UserError
from regard.nn.attention import AttentionTrace
from regard.nn.kernels.switch import fused_kernels
from regard.text.vocab import PAD


class GuidedAlignmentConfig(Config):
    """Guided alignment (Chen et al. 2016): one head of cross-attention learns to follow given word alignments."""

    weight: float = Field(1.0, gt=0.0)
    """Factor of the alignment loss, which is added to the loss of the tokens"""
    layer: int | None = Field(None, ge=0)
    """None: the last but one, so that a later layer can still use the attention"""
    head: int = Field(0, ge=0)

    def resolve_layer(self, n_layers: int) -> int:
        return max(0, n_layers - 2) if self.layer is None else self.layer


class LossConfig(Config):
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    """α of y_ls = (1 − α) y_hot + α / K"""
    r_drop: float = Field(0.0, ge=0.0)
    """α of R-Drop (Liang et al. 2021): two passes with different dropout must agree; 0: one pass"""
    guide: GuidedAlignmentConfig = GuidedAlignmentConfig()
    """Guided alignment, used if word alignments are given"""


class _CrossEntropy(torch.autograd.Function):
    """−Σ_k y_k log p_k per token with y = y_ls, and −log p(y_t).

    The gradient p − y is computed directly: autograd would keep log p in float32 and read the vocabulary three times
    more. It is written over the logits if they are in float32 and not a leaf.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        z = _at_least_float32(logits)
        log_sum = z.logsumexp(-1)
        nll = log_sum - z.gather(-1, targets[..., None]).squeeze(-1)
        uniform = log_sum - z.mean(-1)
        ctx.save_for_backward(logits, targets, log_sum)
        ctx.smoothing = smoothing
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, targets, log_sum = ctx.saved_tensors
        z = _at_least_float32(logits.detach())
        z = z.clone() if logits.is_leaf and z.dtype == logits.dtype else z
        scale = gradients[0][..., None]
        d = z.sub_(log_sum[..., None]).exp_().sub_(ctx.smoothing / z.shape[-1]).mul_(scale)
        d.scatter_add_(-1, targets[..., None], (ctx.smoothing - 1) * scale)
        return d.to(logits.dtype), None, None


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return −Σ_t Σ_k y_ls log p and −Σ_t log p(y_t) over the tokens that are not padding.

    logits [B, T, V], targets [B, T]. The second sum has no gradient. The backward pass may overwrite the logits.
    """
    padding = targets == PAD
    smoothed, nll = _CrossEntropy.apply(logits, targets, smoothing)
    return smoothed.masked_fill(padding, 0.0).sum(), nll.detach().masked_fill(padding, 0.0).sum()


def symmetric_kl(p: Tensor, q: Tensor, targets: Tensor) -> Tensor:
    """Return Σ_t KL(p‖q) + KL(q‖p) of log-probabilities [B, T, V] over the tokens that are not padding."""
    both = ((p.exp() - q.exp()) * (p - q)).sum(-1)
    return both.masked_fill(targets == PAD, 0.0).sum()


def loss_from_logits(logits: Tensor, targets: Tensor, config: LossConfig) -> tuple[Tensor, Tensor]:
    """Return the loss to differentiate and the negative log-likelihood, both summed over the target tokens.

    With R-Drop the second half of the batch is a repetition of the first.
    """
    if fused_kernels():
        from regard.nn.kernels.cross_entropy import FusedCrossEntropy

        return FusedCrossEntropy.apply(logits, targets, config.label_smoothing, config.r_drop, PAD)
    loss, nll = smoothed_cross_entropy(logits, targets, config.label_smoothing)
    if not config.r_drop:
        return loss, nll
    p, q = _at_least_float32(logits).log_softmax(-1).chunk(2)
    divergence = symmetric_kl(p, q, targets.chunk(2)[0])
    # L = CE(p) + CE(q) + α/2 [KL(p‖q) + KL(q‖p)], halved to be comparable with one pass
    return (loss + config.r_drop / 2 * divergence) / 2, nll / 2


def batch_loss(model: Any, batch: Batch, config: LossConfig) -> tuple[Tensor, Tensor]:
    """Return the loss of one batch and its negative log-likelihood. With R-Drop the batch is run twice.

    If the batch has links, the loss of guided alignment is added.
    """
    if config.r_drop:
        batch = Batch(*(torch.cat([tensor, tensor]) for tensor in batch.tensors()))
    if batch.links is None:
        return loss_from_logits(model(batch), batch.tgt_out, config)
    logits, traces = model.forward_traced(batch)
    loss, nll = loss_from_logits(logits, batch.tgt_out, config)
    guided = alignment_loss(traces.cross, batch.links, config.guide)
    return loss + config.guide.weight * (guided / 2 if config.r_drop else guided), nll


def alignment_loss(cross: Sequence[AttentionTrace], links: Tensor, config: GuidedAlignmentConfig) -> Tensor:
    """Return −Σ_t Σ_s a_ts log α_ts of the guided head's attention α, with links a [B, T, S]."""
    layer = config.resolve_layer(len(cross))
    if not layer < len(cross) or not config.head < cross[layer].weights.shape[1]:
        raise UserError(
            f"train.guide: this model has no layer {layer} with a head {config.head} of cross-attention; "
            "set train.guide.layer and train.guide.head"
        )
    weights = _at_least_float32(cross[layer].weights[:, config.head])
    return -(links * weights.clamp(min=1e-9).log()).sum()


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
