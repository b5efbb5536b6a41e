"""Label-smoothed cross-entropy and R-Drop in one pass over the logits; the gradient is written over them."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096
_WARPS = 8


@triton.jit
def _summary(row, N_WORDS: tl.constexpr, BLOCK: tl.constexpr):
    """Return log Σ exp z and the mean of z for one row of logits. A thread reads eight neighbours at a time."""
    k = tl.arange(0, BLOCK // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    largest = tl.full([BLOCK // 8], -1e30, tl.float32)
    exponentials = tl.zeros([BLOCK // 8], tl.float32)
    total = tl.zeros([BLOCK // 8], tl.float32)
    for start in range(0, N_WORDS, BLOCK):
        inside = start + k < N_WORDS
        z = tl.load(row + start + k, mask=inside, other=-1e30).to(tl.float32)
        larger = tl.maximum(largest, tl.max(z, 1))
        exponentials = exponentials * tl.exp(largest - larger) + tl.sum(tl.exp(z - larger[:, None]), 1)
        largest = larger
        total += tl.sum(tl.where(inside, z, 0.0), 1)
    most = tl.max(largest, 0)
    log_sum = most + tl.log(tl.sum(exponentials * tl.exp(largest - most), 0))
    return log_sum, tl.sum(total, 0) / N_WORDS


@triton.jit
def _smoothed_loss(row, target, log_sum, mean, smoothing):
    nll = log_sum - tl.load(row + target).to(tl.float32)
    return (1 - smoothing) * nll + smoothing * (log_sum - mean), nll


@triton.jit
def _loss_kernel(
    logits, targets, log_sums, losses, nlls, smoothing, PAD: tl.constexpr, N_WORDS: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + i)
    if target != PAD:
        row = logits + i * N_WORDS
        log_sum, mean = _summary(row, N_WORDS, BLOCK)
        loss, nll = _smoothed_loss(row, target, log_sum, mean, smoothing)
        tl.store(log_sums + i, log_sum)
        tl.store(losses + i, loss)
        tl.store(nlls + i, nll)


@triton.jit
def _gradient_kernel(
    logits, targets, log_sums, scale, smoothing, PAD: tl.constexpr, N_WORDS: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + i)
    row = logits + i * N_WORDS
    columns = tl.arange(0, BLOCK)
    factor = tl.where(target == PAD, 0.0, tl.load(scale))
    log_sum = tl.load(log_sums + i)
    n_read = tl.where(target == PAD, 0, N_WORDS)
    for start in range(0, N_WORDS, BLOCK):
        k = start + columns
        z = tl.load(row + k, mask=k < n_read, other=-1e30).to(tl.float32)
        y = tl.where(k == target, 1 - smoothing, 0.0) + smoothing / N_WORDS
        tl.store(row + k, ((tl.exp(z - log_sum) - y) * factor).to(logits.dtype.element_ty), mask=k < N_WORDS)


@triton.jit
def _divergence(row_p, row_q, log_sum_p, log_sum_q, N_WORDS: tl.constexpr, BLOCK: tl.constexpr):
    """Return KL(p‖q) and KL(q‖p)."""
    columns = tl.arange(0, BLOCK)
    forward = tl.zeros([BLOCK], tl.float32)
    backward = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N_WORDS, BLOCK):
        inside = start + columns < N_WORDS
        p = tl.load(row_p + start + columns, mask=inside, other=-1e30).to(tl.float32) - log_sum_p
        q = tl.load(row_q + start + columns, mask=inside, other=-1e30).to(tl.float32) - log_sum_q
        difference = tl.where(inside, p - q, 0.0)
        forward += tl.exp(p) * difference
        backward -= tl.exp(q) * difference
    return tl.sum(forward, 0), tl.sum(backward, 0)


@triton.jit(do_not_specialize=["n_rows"])
def _r_drop_loss_kernel(
    logits, targets, saved, losses, nlls, n_rows, smoothing, alpha,
    PAD: tl.constexpr, N_WORDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + i)
    if target != PAD:
        row_p = logits + i * N_WORDS
        row_q = logits + (i + n_rows) * N_WORDS
        log_sum_p, mean_p = _summary(row_p, N_WORDS, BLOCK)
        log_sum_q, mean_q = _summary(row_q, N_WORDS, BLOCK)
        loss_p, nll_p = _smoothed_loss(row_p, target, log_sum_p, mean_p, smoothing)
        loss_q, nll_q = _smoothed_loss(row_q, target, log_sum_q, mean_q, smoothing)
        kl_pq, kl_qp = _divergence(row_p, row_q, log_sum_p, log_sum_q, N_WORDS, BLOCK)
        tl.store(saved + 4 * i, log_sum_p)
        tl.store(saved + 4 * i + 1, log_sum_q)
        tl.store(saved + 4 * i + 2, kl_pq)
        tl.store(saved + 4 * i + 3, kl_qp)
        tl.store(losses + i, (loss_p + loss_q + alpha / 2 * (kl_pq + kl_qp)) / 2)
        tl.store(nlls + i, (nll_p + nll_q) / 2)


@triton.jit(do_not_specialize=["n_rows"])
def _r_drop_gradient_kernel(
    logits, targets, saved, scale, n_rows, smoothing, alpha,
    PAD: tl.constexpr, N_WORDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + i)
    row_p = logits + i * N_WORDS
    row_q = logits + (i + n_rows) * N_WORDS
    columns = tl.arange(0, BLOCK)
    factor = tl.where(target == PAD, 0.0, tl.load(scale) / 2)
    n_read = tl.where(target == PAD, 0, N_WORDS)
    log_sum_p, log_sum_q = tl.load(saved + 4 * i), tl.load(saved + 4 * i + 1)
    kl_pq, kl_qp = tl.load(saved + 4 * i + 2), tl.load(saved + 4 * i + 3)
    for start in range(0, N_WORDS, BLOCK):
        k = start + columns
        log_p = tl.load(row_p + k, mask=k < n_read, other=0.0).to(tl.float32) - log_sum_p
        log_q = tl.load(row_q + k, mask=k < n_read, other=0.0).to(tl.float32) - log_sum_q
        p, q = tl.exp(log_p), tl.exp(log_q)
        y = tl.where(k == target, 1 - smoothing, 0.0) + smoothing / N_WORDS
        d_p = p - y + alpha / 2 * (p * (log_p - log_q - kl_pq) + p - q)
        d_q = q - y + alpha / 2 * (q * (log_q - log_p - kl_qp) + q - p)
        tl.store(row_p + k, (d_p * factor).to(logits.dtype.element_ty), mask=k < N_WORDS)
        tl.store(row_q + k, (d_q * factor).to(logits.dtype.element_ty), mask=k < N_WORDS)


class FusedCrossEntropy(torch.autograd.Function):
    """Returns the loss and the negative log-likelihood, summed over tokens; the backward pass overwrites the logits.

    With `r_drop` the second half of the rows is a repetition of the first, as in `loss_from_logits`.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, r_drop: float, pad: int
    ) -> tuple[Tensor, Tensor]:
        z = logits.contiguous()
        n_rows = targets.numel() // 2 if r_drop else targets.numel()
        losses, nlls = torch.zeros(2, n_rows, dtype=torch.float32, device=z.device)
        saved = torch.zeros(n_rows, 4 if r_drop else 1, dtype=torch.float32, device=z.device)
        constants = {"PAD": pad, **_tile(z.shape[-1])}
        if r_drop:
            numbers = (n_rows, smoothing, r_drop)
            _r_drop_loss_kernel[(n_rows,)](z, targets, saved, losses, nlls, *numbers, **constants)
        else:
            _loss_kernel[(n_rows,)](z, targets, saved, losses, nlls, smoothing, **constants)
        ctx.save_for_backward(z, targets, saved)
        ctx.options = (smoothing, r_drop, constants)
        nll = nlls.sum()
        ctx.mark_non_differentiable(nll)
        return losses.sum(), nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        z, targets, saved = ctx.saved_tensors
        smoothing, r_drop, constants = ctx.options
        z = z.clone() if z.is_leaf else z
        n_rows = len(saved)
        if r_drop:
            numbers = (n_rows, smoothing, r_drop)
            _r_drop_gradient_kernel[(n_rows,)](z, targets, saved, gradients[0], *numbers, **constants)
        else:
            _gradient_kernel[(n_rows,)](z, targets, saved, gradients[0], smoothing, **constants)
        return z, None, None, None, None


def _tile(n_words: int) -> dict[str, int]:
    """The number of words is a constant, so that the compiler knows how rows are aligned."""
    block = max(16, min(_BLOCK, triton.next_power_of_2(n_words)))
    return {"N_WORDS": n_words, "BLOCK": block, "num_warps": _WARPS}
