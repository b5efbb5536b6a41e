"""Rehearsal: while the data of a run are read, the kernels that it will need are compiled, each in its own thread."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

import torch
from torch import Tensor

from regard.models.encoder_decoder import TransformerConfig
from regard.nn.attention import attend_fused
from regard.nn.feedforward import make_feed_forward
from regard.nn.kernels.switch import triton_is_installed, use_fused_kernels
from regard.nn.residual import Residual
from regard.train.loss import LossConfig, loss_from_logits
from regard.train.recipe import Recipe

_LENGTHS = (16, 32, 64, 128)
"""Attention has a kernel for each of these lengths"""
_TOKENS = 8192
"""Enough for the kernels of large batches"""

Part = Callable[[], Tensor]
"""Computes a part of the model on zeros; its result depends on everything that has a gradient in training"""


@contextmanager
def rehearsal(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Compile kernels during the block and wait for them at its end.

    Triton keeps compiled kernels on disk, so only the first run of a kind has to wait.
    """
    parts = parts_of(recipe) if _needs_kernels(recipe, device) else []
    if not parts:
        yield
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        for part in parts:
            pool.submit(_try, part, device)
        try:
            yield
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _needs_kernels(recipe: Recipe, device: torch.device) -> bool:
    config = recipe.train
    fused = config.fused_kernels and config.precision != "fp32" and config.compile is not True
    # Deterministic runs set up cuBLAS before they use the GPU.
    return device.type == "cuda" and triton_is_installed() and fused and not config.deterministic


def _try(part: Part, device: torch.device) -> None:
    with suppress(Exception):  # the run itself will say what is wrong
        if device.index is not None:
            torch.cuda.set_device(device)
        rehearse(part, device)


def rehearse(part: Part, device: torch.device) -> None:
    """Compute a part of the model and its gradients as in training."""
    # Otherwise one thread would run the backward passes of all.
    with torch.device(device), torch.autograd.set_multithreading_enabled(False):
        with torch.autocast(device.type, dtype=torch.bfloat16), use_fused_kernels(device):
            result = part()
        result.backward()


def parts_of(recipe: Recipe) -> list[Part]:
    """Return the parts of a Transformer that have kernels of their own; those that take longest come first."""
    config = recipe.model
    if recipe.task != "translate" or not isinstance(config, TransformerConfig):
        return []
    shapes = [(length, causal) for length in reversed(_LENGTHS) for causal in (False, True)]
    fused = (config.attention, config.score, config.normalise) == ("softmax", "scaled-dot", "softmax")
    attention = [partial(_attention, config, length, causal) for length, causal in shapes if fused]
    loss = partial(_loss, recipe.train, recipe.tokenizer.vocab_size)
    return [*attention, loss, partial(_residuals, config), partial(_feed_forward, config)]


def _attention(config: TransformerConfig, length: int, causal: bool) -> Tensor:
    shape = _TOKENS // length, length, config.n_heads, config.heads.key_width
    q, k, v = (_zeros(*shape).transpose(1, 2) for _ in range(3))
    mask = None if causal else torch.ones(shape[0], 1, 1, length, dtype=torch.bool)
    return attend_fused(q, k, v, mask, causal).sum()


def _residuals(config: TransformerConfig) -> Tensor:
    first, second = (Residual(config.d_model, config.dropout, config.norm, config.norm_kind) for _ in range(2))
    x, y = _zeros(_TOKENS, config.d_model), _zeros(_TOKENS, config.d_model)
    alone = first.before(x)
    x, h = first.fork(x)
    x, g = first.join(x, y, second)
    return (alone + h + g + second.after(x, y)).sum()


def _feed_forward(config: TransformerConfig) -> Tensor:
    layer = make_feed_forward(config.d_model, config.d_ff, config.activation, config.bias).bfloat16()
    return layer(_zeros(_TOKENS, config.d_model)).sum()


def _loss(config: LossConfig, n_words: int) -> Tensor:
    targets = torch.full((2, 8), n_words - 1)
    return loss_from_logits(_zeros(*targets.shape, n_words), targets, config)[0]


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16, requires_grad=True)
