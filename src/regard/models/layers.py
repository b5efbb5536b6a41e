"""Encoder and decoder layers: tokens meet in the mixer, then each goes through the feed-forward part."""

from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.nn.attention import AttentionTrace, Heads, MultiHeadAttention
from regard.nn.feedforward import feed_forward
from regard.nn.kv_cache import KeyValue
from regard.nn.residual import Residual


class LayerConfig(NamedTuple):
    """What every layer needs to know."""

    heads: Heads
    d_ff: int
    dropout: float
    norm: str
    norm_kind: str
    activation: str
    bias: bool


def _residual(config: LayerConfig) -> Residual:
    return Residual(config.heads.d_model, config.dropout, config.norm, config.norm_kind)


class EncoderLayer(nn.Module):
    """Without a mixer every token goes through alone."""

    def __init__(self, config: LayerConfig, mixer: nn.Module | None) -> None:
        super().__init__()
        self.mixer = mixer
        self.feedforward = feed_forward(config.heads.d_model, config.d_ff, config.activation, config.bias)
        self.around_mixer = None if mixer is None else _residual(config)
        self.around_feedforward = _residual(config)

    def forward(self, x: Tensor, mask: Tensor | None, need_trace: bool = False) -> tuple[Tensor, AttentionTrace | None]:
        """x [B, S, D], mask [B, 1, 1, S] → [B, S, D], and the mixer's look if asked for"""
        trace = None
        if self.mixer is not None and self.around_mixer is not None:
            y, trace = self.mixer(self.around_mixer.enter(x), mask, need_trace)
            x = self.around_mixer.leave(x, y)
        h = self.around_feedforward.enter(x)
        return self.around_feedforward.leave(x, self.feedforward(h)), trace


class DecoderLayer(nn.Module):
    """With a `d_memory`, cross-attention to a source stands between the mixer and the feed-forward part."""

    def __init__(self, config: LayerConfig, mixer: nn.Module | None, d_memory: int | None) -> None:
        super().__init__()
        self.mixer: Any = mixer
        self.cross = None if d_memory is None else MultiHeadAttention(config.heads, d_memory)
        self.feedforward = feed_forward(config.heads.d_model, config.d_ff, config.activation, config.bias)
        self.around_mixer = _residual(config)
        self.around_cross = None if d_memory is None else _residual(config)
        self.around_feedforward = _residual(config)

    def sources(self, values: Tensor) -> KeyValue | None:
        """The source [B, S, D] as this layer sees it"""
        return None if self.cross is None else self.cross.keys_values(values)

    def forward(
        self,
        x: Tensor,
        source: KeyValue | None = None,
        src_mask: Tensor | None = None,
        mask: Tensor | None = None,
        need_trace: bool = False,
    ) -> tuple[Tensor, AttentionTrace | None, AttentionTrace | None]:
        """x [B, T, D], a whole target → [B, T, D], and the mixer's and the cross-attention's look if asked for"""
        y, own = self.mixer(self.around_mixer.enter(x), mask, need_trace)
        x, cross = self._behind_mixer(self.around_mixer.leave(x, y), source, src_mask, need_trace)
        return x, own, cross

    def step(
        self, x: Tensor, past: Any, source: KeyValue | None, src_mask: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Any]:
        """x [B, 1, D], the next token, and what the mixer remembers of those before it"""
        y, past = self.mixer.step(self.around_mixer.enter(x), past, mask)
        return self._behind_mixer(self.around_mixer.leave(x, y), source, src_mask, False)[0], past

    def _behind_mixer(
        self, x: Tensor, source: KeyValue | None, src_mask: Tensor | None, need_trace: bool
    ) -> tuple[Tensor, AttentionTrace | None]:
        cross = None
        if self.cross is not None and self.around_cross is not None and source is not None:
            y, cross = self.cross(self.around_cross.enter(x), source, src_mask, need_trace=need_trace)
            x = self.around_cross.leave(x, y)
        h = self.around_feedforward.enter(x)
        return self.around_feedforward.leave(x, self.feedforward(h)), cross
