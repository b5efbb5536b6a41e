"""Encoder and decoder layers: a mixer, then a feed-forward layer, each with a residual connection."""

from typing import Generic, NamedTuple

from torch import Tensor, nn

from regard.nn.attention import AttentionTrace, Heads, MultiHeadAttention
from regard.nn.changes import NO_CHANGE, LayerChange
from regard.nn.feedforward import make_feed_forward
from regard.nn.kv_cache import KeyValue, Places
from regard.nn.mixers import CausalMixer, Mixer, MixerStateT
from regard.nn.residual import Residual


class LayerConfig(NamedTuple):
    """Options of every layer."""

    heads: Heads
    d_ff: int
    dropout: float
    norm: str
    norm_kind: str
    activation: str
    bias: bool
    norm_eps: float | None = None

    def residual(self) -> Residual:
        return Residual(self.heads.d_model, self.dropout, self.norm, self.norm_kind, self.norm_eps)

    def feed_forward(self) -> nn.Module:
        return make_feed_forward(self.heads.d_model, self.d_ff, self.activation, self.bias)


class EncoderLayer(nn.Module):
    """Without a mixer, tokens do not interact."""

    def __init__(self, config: LayerConfig, mixer: Mixer | None) -> None:
        super().__init__()
        self.mixer = mixer
        self.feedforward = config.feed_forward()
        self.mixer_residual = None if mixer is None else config.residual()
        self.feedforward_residual = config.residual()

    def forward(
        self, x: Tensor, mask: Tensor | None, need_trace: bool = False, change: LayerChange = NO_CHANGE
    ) -> tuple[Tensor, AttentionTrace | None]:
        """x [B, S, D], mask [B, 1, 1, S] → [B, S, D] and, if requested, the trace of the mixer"""
        trace = None
        if self.mixer is not None and self.mixer_residual is not None:
            x, h = self.mixer_residual.fork(x)
            y, trace = self.mixer(h, mask, need_trace, change.mixer)
            x, h = self.mixer_residual.join(x, y, self.feedforward_residual)
        else:
            x, h = self.feedforward_residual.fork(x)
        return change.after(self.feedforward_residual.after(x, self.feedforward(h))), trace


class Source(NamedTuple):
    """The source as one decoder layer sees it: keys and values [N, H, S, K], mask [N, 1, 1, S] (bool or added)."""

    keys_values: KeyValue
    mask: Tensor


class DecoderLayer(nn.Module, Generic[MixerStateT]):
    """With `d_memory`, cross-attention to the source comes between the mixer and the feed-forward layer."""

    def __init__(self, config: LayerConfig, mixer: CausalMixer[MixerStateT], d_memory: int | None) -> None:
        super().__init__()
        self.mixer = mixer
        self.cross = None if d_memory is None else MultiHeadAttention(config.heads, d_memory)
        self.feedforward = config.feed_forward()
        self.mixer_residual = config.residual()
        self.cross_residual = None if d_memory is None else config.residual()
        self.feedforward_residual = config.residual()

    def source_keys_values(self, values: Tensor) -> KeyValue | None:
        """Keys and values of the encoded source [B, S, D] for the cross-attention of this layer"""
        return None if self.cross is None else self.cross.keys_values(values)

    def forward(
        self,
        x: Tensor,
        source: Source | None = None,
        mask: Tensor | None = None,
        need_trace: bool = False,
        change: LayerChange = NO_CHANGE,
    ) -> tuple[Tensor, AttentionTrace | None, AttentionTrace | None]:
        """Process a whole target x [B, T, D] → [B, T, D] and, if requested, the traces of mixer and cross-attention"""
        x, h = self.mixer_residual.fork(x)
        y, self_trace = self.mixer(h, mask, need_trace, change.mixer)
        x, cross_trace = self._after_mixer(x, y, source, need_trace, change)
        return x, self_trace, cross_trace

    def step(
        self,
        x: Tensor,
        past: MixerStateT,
        source: Source | None,
        places: Places,
        change: LayerChange = NO_CHANGE,
    ) -> tuple[Tensor, MixerStateT]:
        """Process the next token x [R, 1, D], given the mixer's state of earlier tokens"""
        y, past = self.mixer.step(self.mixer_residual.before(x), past, places, change.mixer)
        return self._after_mixer(x, y, source, False, change, steps=True)[0], past

    def _after_mixer(
        self,
        x: Tensor,
        y: Tensor,
        source: Source | None,
        need_trace: bool,
        change: LayerChange,
        steps: bool = False,
    ) -> tuple[Tensor, AttentionTrace | None]:
        """Process x and the mixer's output y, which is not added to it yet; `steps`: x is the next token only."""
        trace, residual = None, self.mixer_residual
        if self.cross is not None and self.cross_residual is not None and source is not None:
            x, h = residual.join(x, y, self.cross_residual)
            if steps:
                y = self.cross.attend_source(h, source.keys_values, source.mask, change.cross)
            else:
                y, trace = self.cross(h, source.keys_values, source.mask, need_trace=need_trace, change=change.cross)
            residual = self.cross_residual
        x, h = residual.join(x, y, self.feedforward_residual)
        return change.after(self.feedforward_residual.after(x, self.feedforward(h))), trace
