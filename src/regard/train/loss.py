"""The training loss: label-smoothed cross-entropy, with R-Drop and guided alignment if they are on."""

from collections.abc import Iterator, Sequence
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

_BLOCK = 2**18  # logits that are processed at once on a CPU


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
    """−Σ_k y_k log p_k with y = y_ls, and −log p(y_t), both summed over the tokens that are not padding.

    With R-Drop the second half of the rows is a repetition of the first; p and q are the probabilities of both halves:
    L = CE(p) + CE(q) + α/2 [KL(p‖q) + KL(q‖p)], halved to be comparable with one pass.

    The gradient is computed directly: autograd would keep log p in float32 and read the vocabulary several times more.
    It is written over the logits unless they are a leaf.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, r_drop: float) -> tuple[Tensor, Tensor]:
        z, y = logits.detach().flatten(0, -2), targets.flatten()
        padding = y == PAD
        log_sum, mean = z.new_empty(2, len(z), dtype=torch.promote_types(z.dtype, torch.float32))
        for rows in _blocks(z, len(z)):
            block = _at_least_float32(z[rows])
            log_sum[rows], mean[rows] = block.logsumexp(-1), block.mean(-1)
        nll = log_sum - z.gather(-1, y[:, None]).squeeze(-1)
        loss = (1 - smoothing) * nll + smoothing * (log_sum - mean)
        divergences = _divergences(z, log_sum) if r_drop else log_sum.new_zeros(2, 0)
        ctx.save_for_backward(logits, y, log_sum, divergences)
        ctx.smoothing, ctx.r_drop = smoothing, r_drop
        total, total_nll = (x.masked_fill(padding, 0.0).sum() for x in (loss, nll))
        if not r_drop:
            return total, total_nll
        divergence = divergences.sum(0).masked_fill(padding[: len(z) // 2], 0.0).sum()
        return (total + r_drop / 2 * divergence) / 2, total_nll / 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        logits, y, log_sum, divergences = ctx.saved_tensors
        z = logits.detach()
        z = (z.clone() if logits.is_leaf else z).flatten(0, -2)
        scale = (gradients[0] * (y != PAD))[:, None] / (2 if ctx.r_drop else 1)
        half = len(z) // 2
        for rows in _blocks(z, half if ctx.r_drop else len(z)):
            parts = [rows, slice(rows.start + half, rows.stop + half)] if ctx.r_drop else [rows]
            blocks = [_at_least_float32(z[part]).sub_(log_sum[part, None]) for part in parts]
            if ctx.r_drop:
                _add_divergence(blocks[0], blocks[1], divergences[:, rows, None], ctx.r_drop / 2)
            else:
                blocks[0].exp_()
            for d, part in zip(blocks, parts, strict=True):
                d.sub_(ctx.smoothing / z.shape[-1]).mul_(scale[part])
                d.scatter_add_(-1, y[part, None], (ctx.smoothing - 1) * scale[part])
                if d.dtype != z.dtype:
                    z[part] = d
        return z.view(logits.shape), None, None, None


def _divergences(z: Tensor, log_sum: Tensor) -> Tensor:
    """Return KL(p‖q) and KL(q‖p) [2, N] of the probabilities in both halves of the logits [2N, V]."""
    half = len(z) // 2
    both = log_sum.new_empty(2, half)
    for rows in _blocks(z, half):
        other = slice(rows.start + half, rows.stop + half)
        log_p, log_q = (_at_least_float32(z[part]) - log_sum[part, None] for part in (rows, other))
        difference = log_p - log_q
        both[0, rows] = log_p.exp_().mul_(difference).sum(-1)
        both[1, rows] = -log_q.exp_().mul_(difference).sum(-1)
    return both


def _add_divergence(p: Tensor, q: Tensor, divergences: Tensor, weight: float) -> None:
    """Turn log p and log q [N, V] into p and q, plus the gradients of `weight` · [KL(p‖q) + KL(q‖p)].

    The gradient with respect to the logits of p is p (log p/q − KL(p‖q)) + p − q.
    """
    difference = p - q
    gap = p.exp_() - q.exp_()
    p.mul_((difference - divergences[0]).mul_(weight).add_(1)).add_(gap, alpha=weight)
    q.mul_((difference + divergences[1]).mul_(-weight).add_(1)).sub_(gap, alpha=weight)


def _blocks(z: Tensor, n: int) -> Iterator[slice]:
    """Yield the first `n` rows of logits [N, V] in blocks, which stay in the cache of a CPU while they are used."""
    size = max(1, _BLOCK // z.shape[-1]) if z.device.type == "cpu" else max(1, n)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return −Σ_t Σ_k y_ls log p and −Σ_t log p(y_t) over the tokens that are not padding.

    logits [B, T, V], targets [B, T]. The second sum has no gradient. The backward pass may overwrite the logits.
    """
    loss, nll = _CrossEntropy.apply(logits, targets, smoothing, 0.0)
    return loss, nll.detach()


def loss_from_logits(logits: Tensor, targets: Tensor, config: LossConfig) -> tuple[Tensor, Tensor]:
    """Return the loss to differentiate and the negative log-likelihood, both summed over the target tokens.

    With R-Drop the second half of the batch is a repetition of the first.
    """
    if fused_kernels():
        from regard.nn.kernels.cross_entropy import FusedCrossEntropy

        return FusedCrossEntropy.apply(logits, targets, config.label_smoothing, config.r_drop, PAD)
    loss, nll = _CrossEntropy.apply(logits, targets, config.label_smoothing, config.r_drop)
    return loss, nll.detach()


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
