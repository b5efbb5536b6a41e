"""The parts of layers that all exported classes have: maps, norms and tables of positions."""

import torch
from torch import Tensor, nn

from regard.bundle import Bundle
from regard.models.stack import StackConfig, StackDecoder, StackEncoder
from regard.nn.attention import MultiHeadAttention
from regard.nn.positions import sinusoid

_TABLE = range(1024, 4097)
"""Lengths that a table of sinusoids may have; ours have no end"""

Map = tuple[Tensor, Tensor | None]
"""Weight and bias"""


def table_length(bundle: Bundle, *stacks: StackConfig) -> int:
    """Return how many positions the exported model has: enough for the longest source and its end, or the context."""
    n = bundle.context if bundle.task == "text" else bundle.decode.max_source + 1
    n = min(max(n, _TABLE[0]), _TABLE[-1])
    return min([n, *(stack.max_len for stack in stacks if stack.positions == "learned")])


def position_table(stack: StackEncoder | StackDecoder, n: int) -> Tensor:
    """Return the vectors of the first n positions [n, D]; zeros if the stack has none."""
    assert stack.embedding is not None
    positions, width = stack.embedding.positions, stack.embedding.tokens.embedding_dim
    if positions is None:
        return torch.zeros(n, width)
    return positions.table[:n] if len(positions.table) >= n else sinusoid(torch.arange(n), width).float()


def attention_maps(attention: MultiHeadAttention, grouped: bool = False) -> dict[str, Map]:
    """Return the maps q, k, v and out. Unless `grouped`, each query head gets its own copy of the keys and values."""
    n, (d_k, d_v) = attention.n_kv_heads, attention.widths
    copies = 1 if grouped else attention.n_heads // n
    weights = attention.key_value.weight.split([n * d_k, n * d_v])
    bias = attention.key_value.bias
    biases = (None, None) if bias is None else bias.split([n * d_k, n * d_v])
    keys_values = {
        name: (_repeat(weight, n, copies), None if bias is None else _repeat(bias, n, copies))
        for name, weight, bias in zip("kv", weights, biases, strict=True)
    }
    query, out = attention.query, attention.out
    return {"q": (query.weight, query.bias), **keys_values, "out": (out.weight, out.bias)}


def _repeat(rows: Tensor, n: int, copies: int) -> Tensor:
    """Repeat the rows of each of n heads."""
    return rows.unflatten(0, (n, -1)).repeat_interleave(copies, dim=0).flatten(0, 1)


def linear_tensors(name: str, weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
    """Return the tensors of a linear map; a missing bias is zero."""
    return {f"{name}.weight": weight, f"{name}.bias": weight.new_zeros(len(weight)) if bias is None else bias}


def norm_tensors(name: str, norm: nn.Module, scale: float = 1.0) -> dict[str, Tensor]:
    """Return gain and bias (if there is one) of a norm, multiplied by `scale`."""
    return {f"{name}.{part}": tensor * scale for part, tensor in norm.named_parameters()}
