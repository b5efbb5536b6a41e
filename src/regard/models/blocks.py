"""Encoder and decoder layers."""

from typing import NamedTuple

from torch import Tensor, nn

from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import KeyValue
from regard.nn.feedforward import FeedForward
from regard.nn.residual import Residual


class LayerConfig(NamedTuple):
    """What every Transformer layer needs to know."""

    d_model: int
    n_heads: int
    d_ff: int
    dropout: float
    norm: str
    activation: str


class EncoderLayer(nn.Module):
    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.feedforward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.around_attention = Residual(config.d_model, config.dropout, config.norm)
        self.around_feedforward = Residual(config.d_model, config.dropout, config.norm)

    def forward(self, x: Tensor, mask: Tensor, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """x [B, S, D], mask [B, 1, 1, S] → [B, S, D] and the weights [B, H, S, S] if asked for"""
        h = self.around_attention.enter(x)
        y, weights = self.attention(h, self.attention.keys_values(h), mask, need_weights=need_weights)
        x = self.around_attention.leave(x, y)
        h = self.around_feedforward.enter(x)
        return self.around_feedforward.leave(x, self.feedforward(h)), weights


class DecoderMemory(NamedTuple):
    """What a decoder layer remembers between steps: its own past, and the source as it sees it."""

    past: KeyValue | None
    source: KeyValue

    def select(self, rows: Tensor) -> "DecoderMemory":
        return DecoderMemory(self.past.select(rows) if self.past else None, self.source.select(rows))


class DecoderWeights(NamedTuple):
    decoder: Tensor | None
    cross: Tensor | None


class DecoderLayer(nn.Module):
    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.feedforward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.around_attention = Residual(config.d_model, config.dropout, config.norm)
        self.around_cross = Residual(config.d_model, config.dropout, config.norm)
        self.around_feedforward = Residual(config.d_model, config.dropout, config.norm)

    def forward(
        self, x: Tensor, memory: DecoderMemory, src_mask: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, DecoderMemory, DecoderWeights]:
        """x [B, T, D]: a whole target under the causal mask, or, with a past, the one next token."""
        h = self.around_attention.enter(x)
        past = self.attention.keys_values(h)
        if memory.past is not None:
            past = memory.past.append(past)
        y, own = self.attention(h, past, causal=memory.past is None, need_weights=need_weights)
        x = self.around_attention.leave(x, y)

        h = self.around_cross.enter(x)
        y, cross = self.cross_attention(h, memory.source, src_mask, need_weights=need_weights)
        x = self.around_cross.leave(x, y)

        h = self.around_feedforward.enter(x)
        x = self.around_feedforward.leave(x, self.feedforward(h))
        return x, DecoderMemory(past, memory.source), DecoderWeights(own, cross)
