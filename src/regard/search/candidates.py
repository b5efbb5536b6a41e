"""The continuations of each hypothesis that a search looks at, after all constraints."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.search.protocols import S
from regard.search.slots import Slots
from regard.text.vocab import EOS

TokenChoice = Callable[[Tensor, Slots[Any]], Tensor]
"""(log_probs [R, V] of the next tokens, slots) → ids [R, c] to look at, best first"""


def candidates(slots: Slots[S], log_probs: Tensor, choose: TokenChoice) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and ids [R, c] of the continuations of each hypothesis, best first.

    Changes log_probs [R, V]. Where a token is forced it is the only one; where all are forbidden it is EOS.
    """
    lengths = slots.rows(slots.lengths)
    forced = slots.constraints.forced_ids(lengths)[:, None]
    only_id = torch.where(forced >= 0, forced, EOS)
    only = log_probs.gather(1, only_id)
    allowed = slots.constraints.forbid(log_probs, slots.tokens.flatten(0, 1), lengths)
    ids = choose(allowed, slots)
    top = allowed.gather(1, ids)
    is_only = (forced >= 0) | (top[:, :1] == -torch.inf)
    is_first = torch.arange(ids.shape[1], device=ids.device) == 0
    top = torch.where(is_only, torch.where(is_first, only, -torch.inf), top)
    return top, torch.where(is_only & is_first, only_id, ids)
