"""Copies our weights into modules of torch, to compare the results."""

import torch
from torch import nn

from regard.nn.attention import MultiHeadAttention


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
