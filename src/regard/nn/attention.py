"""Attention: the equation itself, its fused form, and several heads of it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.cache import KeyValue
from regard.nn.masks import causal_mask
from regard.nn.scores import SCORES

Score = Callable[[Tensor, Tensor], Tensor]


def attend(
    q: Tensor, k: Tensor, v: Tensor, score: str | Score = "scaled-dot", mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A(q, K, V) = Σ_i softmax_i(e(q, k_i)) v_i

    q [..., Tq, K], k [..., Tk, K], v [..., Tk, Dv], mask broadcastable to [..., Tq, Tk] with True = may attend
    → output [..., Tq, Dv], weights [..., Tq, Tk]
    """
    e = score_named(score)(q, k)
    if mask is not None:
        e = e.masked_fill(~mask, -torch.inf)
    weights = e.softmax(-1)
    return weights @ v, weights


def attend_fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """`attend` with the scaled dot product in one kernel that never holds the weights."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


def score_named(score: str | Score) -> Score:
    if not isinstance(score, str):
        return score
    if score not in SCORES:
        raise UserError(f"attention score '{score}' is unknown; choose one of {', '.join(SCORES)}")
    return SCORES[score]()


class MultiHeadAttention(nn.Module):
    """h heads of width d/h: project, attend in each, concatenate, times W_O.

    Self-attention takes its own keys and values, `m(x, m.keys_values(x))`; cross-attention those of the source.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def keys_values(self, x: Tensor) -> KeyValue:
        """[B, S, D] → keys and values [B, H, S, K]"""
        k, v = self.key_value(x).chunk(2, dim=-1)
        return KeyValue(self._split(k), self._split(v))

    def forward(
        self,
        x: Tensor,
        memory: KeyValue,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries from x [B, Tq, D] → output [B, Tq, D], and the weights [B, H, Tq, Tk] where they are asked for.

        The weights come from the plain form; without them the fused one runs.
        """
        q, (k, v) = self._split(self.query(x)), memory
        if need_weights:
            if causal:
                mask = causal_mask(q.shape[-2], k.shape[-2], q.device)
            heads, weights = attend(q, k, v, mask=mask)
        else:
            heads, weights = attend_fused(q, k, v, mask, causal), None
        return self.out(heads.transpose(1, 2).flatten(2)), weights

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # [B, H, T, K]
