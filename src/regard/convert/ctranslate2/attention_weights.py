"""Attention weights in the layout of CTranslate2: one width for keys and values, and a chosen head first."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.attention import MultiHeadAttention


class Projection(NamedTuple):
    """A linear map: weight [out, in] and bias [out]"""

    weight: Tensor
    bias: Tensor | None

    def then(self, other: "Projection") -> "Projection":
        """Stack the outputs of another map of the same input below those of this one."""
        bias = None if self.bias is None or other.bias is None else torch.cat([self.bias, other.bias])
        return Projection(torch.cat([self.weight, other.weight]), bias)

    def halves(self) -> "tuple[Projection, Projection]":
        """Return the first and the second half of the outputs as maps of their own."""
        weights = self.weight.chunk(2)
        biases = (None, None) if self.bias is None else self.bias.chunk(2)
        return Projection(weights[0], biases[0]), Projection(weights[1], biases[1])


class AttentionWeights(NamedTuple):
    """The maps of one attention layer."""

    query: Projection
    key_value: Projection
    out: Projection


def head_width(attention: MultiHeadAttention) -> int:
    """Return the width of a head in CTranslate2, which has one for keys and values: the smaller is padded with 0."""
    return max(attention.widths)


def attention_weights(attention: MultiHeadAttention, first_head: int = 0) -> AttentionWeights:
    """Return the weights of an attention layer whose head `first_head` comes first.

    CTranslate2 divides scores by √width of a head; queries are multiplied by what our score has instead.
    """
    d_k, d_v = attention.widths
    width = head_width(attention)
    n_groups, n_heads = attention.n_kv_heads, attention.n_heads
    heads, groups = _head_order(n_heads, n_groups, first_head)
    keys, values = attention.key_value.weight.split([n_groups * d_k, n_groups * d_v])
    key_bias, value_bias = (
        (None, None)
        if attention.key_value.bias is None
        else attention.key_value.bias.split([n_groups * d_k, n_groups * d_v])
    )
    scale = math.sqrt(width) if attention.score_name == "dot" else math.sqrt(width / d_k)
    query = _arrange(Projection(attention.query.weight, attention.query.bias), n_heads, heads, width, scale)
    key = _arrange(Projection(keys, key_bias), n_groups, groups, width)
    value = _arrange(Projection(values, value_bias), n_groups, groups, width)
    columns = attention.out.weight.unflatten(1, (n_heads, d_v))[:, heads]
    out = F.pad(columns, (0, width - d_v)).flatten(1)
    return AttentionWeights(query, key.then(value), Projection(out, attention.out.bias))


def _arrange(maps: Projection, n_heads: int, order: list[int], width: int, scale: float = 1.0) -> Projection:
    """Put the heads of a map in another order, pad each to `width` with zeros, and multiply them."""
    weight = maps.weight.unflatten(0, (n_heads, -1))[order]
    weight = F.pad(weight, (0, 0, 0, width - weight.shape[1])).flatten(0, 1) * scale
    if maps.bias is None:
        return Projection(weight, None)
    bias = maps.bias.unflatten(0, (n_heads, -1))[order]
    return Projection(weight, F.pad(bias, (0, width - bias.shape[1])).flatten() * scale)


def _head_order(n_heads: int, n_groups: int, first: int) -> tuple[list[int], list[int]]:
    """Return the order of query heads and of key-value heads when query head `first` moves to the front.

    Consecutive query heads share a key-value head, so their groups move as a whole.
    """
    size = n_heads // n_groups
    groups = sorted(range(n_groups), key=lambda group: group != first // size)
    heads = [head for group in groups for head in range(group * size, (group + 1) * size)]
    return sorted(heads, key=lambda head: head != first), groups
