"""The continuations of each hypothesis that a search looks at, after all constraints."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.nn.constants import numbers
from regard.nn.kernels.switch import triton_is_installed
from regard.search.protocols import S
from regard.search.slots import Slots
from regard.text.vocab import EOS

_MAX_TOP_K = 64  # for more, torch's own kernel is faster

TokenChoice = Callable[[Tensor, Slots[Any]], Tensor]
"""(logits [R, V] of the next tokens, slots) → ids [R, c] to look at, best first"""


def most_likely(log_probs: Tensor, n: int) -> Tensor:
    """Return the ids of the n largest numbers of each row [R, V], largest first → [R, n]"""
    n = min(n, log_probs.shape[1])
    if log_probs.is_cuda and log_probs.dtype == torch.float32 and n <= _MAX_TOP_K and triton_is_installed():
        from regard.nn.kernels.top_k import top_k

        return top_k(log_probs, n)[1]
    return log_probs.argmax(1, keepdim=True) if n == 1 else log_probs.topk(n, dim=1).indices


def candidates(slots: Slots[S], logits: Tensor, log_sums: Tensor, choose: TokenChoice) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and ids [R, c] of the continuations of each hypothesis, best first.

    log p = logits − log_sums, [R, V] and [R, 1] or [1, 1]. Changes the logits. Where a token is forced
    it is the only one; where all are forbidden it is EOS.
    """
    lengths = slots.rows(slots.lengths)
    forced = slots.constraints.forced_ids(lengths)[:, None]
    only_id = torch.where(forced >= 0, forced, EOS)
    only = logits.gather(1, only_id)
    allowed = slots.constraints.forbid(logits, slots.tokens.flatten(0, 1), lengths)
    ids = choose(allowed, slots)
    top = allowed.gather(1, ids)
    is_only = (forced >= 0) | (top[:, :1] == -torch.inf)
    if ids.shape[1] == 1:
        return torch.where(is_only, only, top) - log_sums, torch.where(is_only, only_id, ids)
    is_first = numbers(ids.shape[1], ids.device) == 0
    only = torch.where(is_first, only, -torch.inf)
    return torch.where(is_only, only, top) - log_sums, torch.where(is_only & is_first, only_id, ids)
