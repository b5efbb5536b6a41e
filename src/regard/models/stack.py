"""Encoder and decoder stacks; the mixer decides how tokens interact."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal, Self, cast

from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.config import Config
from regard.models.intervention import Intervention
from regard.models.layers import DecoderLayer, EncoderLayer, LayerConfig, Source
from regard.models.protocols import AttentionModule, Decoded, Memory
from regard.models.sizes import HeadCount, LayerCount, SequenceLength, Width
from regard.nn.attention import AttentionTrace, Heads, MultiHeadAttention, SelfAttention
from regard.nn.changes import NO_CHANGE, LayerChange
from regard.nn.embedding import Add, Concatenate, Embedding
from regard.nn.kernels.switch import triton_is_installed, use_fused_kernels
from regard.nn.kv_cache import MAX_SHARED, CacheIndex, KvCache
from regard.nn.masks import as_added
from regard.nn.mixers import (
    BidirectionalStateSpace,
    CausalMixer,
    LinearAttention,
    Mixer,
    MixerState,
    StateSpace,
    Window,
)
from regard.nn.positions import POSITIONS, Rope, RopeScaling
from regard.nn.residual import make_norm
from regard.text.vocab import PAD

PositionKind = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]


class StackConfig(Config):
    """A stack of Transformer layers; the subclasses replace self-attention by another mixer."""

    kind: Literal["transformer"] = "transformer"
    d_model: Width = 512
    n_heads: HeadCount = 8
    n_kv_heads: HeadCount | None = None
    """Heads of keys and values, each shared by a group of query heads; default: n_heads."""
    d_head: Width | None = None
    """Width of queries and keys in each head, d_k; default: d_model / n_heads."""
    d_value: Width | None = None
    """Width of values in each head, d_v; default: d_head."""
    d_ff: Width = 2048
    n_layers: LayerCount = 6
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout of the attention weights; `dropout` acts on the output of each sub-layer and on the embeddings."""
    norm: Literal["pre", "post"] = "pre"
    norm_kind: Literal["layer", "rms"] = "layer"
    norm_eps: float | None = Field(None, gt=0.0, le=1.0)
    """ε of the norms; default: 1e-5 for layer, the smallest relative difference of the number type for rms."""
    activation: Literal["gelu", "relu", "swiglu", "gelu-tanh", "silu"] = "gelu"
    bias: bool = True
    """Whether the linear maps of a layer have a bias."""
    positions: PositionKind = "sinusoidal"
    rope_theta: float = Field(10_000.0, gt=0.0)
    """θ of rotary positions."""
    rope_scaling: RopeScaling | None = None
    """Rotary positions of longer texts than in the first training, as in Llama 3.1: factor, low, high, context."""
    scale_embedding: bool = True
    """Multiply token vectors by √d_model."""
    embedding_norm: bool = False
    """Normalise the sum of token and position vectors, as BERT does."""
    join: Literal["add", "concatenate"] = "add"
    """How token and position vectors are combined: added, or concatenated and multiplied by a matrix."""
    max_len: SequenceLength = 1024
    """Longest sequence for learned positions and the location score; others have no limit."""
    attention: Literal["softmax", "linear"] = "softmax"
    """linear leaves out the softmax of self-attention: the cost is then linear in the length, not quadratic."""
    feature: Literal["identity", "elu"] = "elu"
    """Feature map φ of linear attention: identity is the lecture's form; elu + 1 divides the weights by their sum."""
    score: Literal["dot", "scaled-dot", "cosine", "bilinear", "additive", "location"] = "scaled-dot"
    normalise: Literal["softmax", "hardmax", "sum", "none"] = "softmax"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} must divide d_model={self.d_model}, or set d_head")
        if self.n_kv_heads and self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads={self.n_kv_heads} must divide n_heads={self.n_heads}")
        if self.positions == "rotary" and self.heads.key_width % 2:
            raise ValueError("rotary positions need heads of even width")
        if self.attention == "linear" and (
            self.n_kv_heads or self.attention_dropout or (self.score, self.normalise) != ("scaled-dot", "softmax")
        ):
            raise ValueError(
                "attention=linear does not use n_kv_heads, score, normalise or attention_dropout; leave them out"
            )
        if self.positions in ("rotary", "alibi") and self.attention == "linear":
            raise ValueError(f"positions={self.positions} needs softmax attention; use sinusoidal or learned")
        return self

    @property
    def max_positions(self) -> int | None:
        """Longest sequence that the stack can process; None: no limit"""
        return self.max_len if self.positions == "learned" or self.score == "location" else None

    @property
    def heads(self) -> Heads:
        return Heads(
            self.d_model,
            self.n_heads,
            self.n_kv_heads,
            self.d_head,
            self.d_value,
            self.score,
            self.normalise,
            self.bias,
            self.max_len,
            self.attention_dropout,
        )

    @property
    def layer(self) -> LayerConfig:
        return LayerConfig(
            self.heads, self.d_ff, self.dropout, self.norm, self.norm_kind, self.activation, self.bias, self.norm_eps
        )

    @property
    def can_hide_tokens(self) -> bool:
        """Whether an encoder of this kind can leave out single source tokens; see `Encoder`"""
        return True

    def encoder_mixer(self) -> Mixer | None:
        return cast(Mixer | None, self._mixer(causal=False))

    def decoder_mixer(self) -> CausalMixer[MixerState]:
        return cast(CausalMixer[MixerState], self._mixer(causal=True))

    def _mixer(self, causal: bool) -> nn.Module | None:
        if self.attention == "linear":
            return LinearAttention(self.heads, causal, self.feature)
        return SelfAttention(self.heads, causal, self.positions, Rope(self.rope_theta, self.rope_scaling))


class SsmConfig(StackConfig):
    """A stack whose mixer is a selective state space."""

    kind: Literal["ssm"] = "ssm"  # type: ignore[assignment]
    positions: PositionKind = "none"
    d_state: int = Field(16, ge=1, le=4_096)

    @property
    def can_hide_tokens(self) -> bool:
        return False  # the recurrence reads every token

    def _mixer(self, causal: bool) -> nn.Module | None:
        return (StateSpace if causal else BidirectionalStateSpace)(self.d_model, self.d_state)


class FeedForwardConfig(StackConfig):
    """A stack whose layers see one token (encoder) or a fixed number of tokens (decoder)."""

    kind: Literal["feedforward"] = "feedforward"  # type: ignore[assignment]
    window: int = Field(4, ge=1, le=1_024)
    """Tokens that each decoder layer sees."""

    def _mixer(self, causal: bool) -> nn.Module | None:
        return Window(self.d_model, self.window) if causal else None


class StackEncoder(nn.Module):
    """A stack of encoder layers. Without `tokens`, its input is already embedded."""

    def __init__(self, config: StackConfig, tokens: nn.Embedding | None) -> None:
        super().__init__()
        self.embedding = None if tokens is None else _embedding(tokens, config)
        self.layers = nn.ModuleList(EncoderLayer(config.layer, config.encoder_mixer()) for _ in range(config.n_layers))
        self.norm = _last_norm(config)
        self.d_model = config.d_model
        self.max_len = config.max_positions
        self.can_hide_tokens = config.can_hide_tokens

    def forward(self, src: Tensor, need_trace: bool = False, intervention: Intervention | None = None) -> Memory:
        """src [B, S] ids"""
        assert self.embedding is not None
        return self.encode(self.embedding(src), src != PAD, need_trace, intervention)

    def encode(
        self, x: Tensor, mask: Tensor, need_trace: bool = False, intervention: Intervention | None = None
    ) -> Memory:
        """Encode embedded tokens x [B, S, D] with mask [B, S]."""
        traces: list[AttentionTrace | None] = []
        for layer, change in zip(self.layers, self._changes(intervention, x), strict=True):
            x, trace = layer(x, mask[:, None, None, :], need_trace, change)
            traces.append(trace)
        x = self.norm(x)
        return Memory(x, mask, masked_mean(x, mask), _without_none(traces))

    def attention_modules(self) -> list[AttentionModule]:
        return [layer.mixer for layer in self.layers if isinstance(layer.mixer, MultiHeadAttention)]

    def _changes(self, intervention: Intervention | None, x: Tensor) -> list[LayerChange]:
        if intervention is None:
            return [NO_CHANGE] * len(self.layers)
        modules = self.attention_modules()
        n_heads = [module.n_heads for module in modules] if modules else [None] * len(self.layers)
        return [intervention.encoder_layer(i, n, x.shape[1], x.device) for i, n in enumerate(n_heads)]


@dataclass(frozen=True)
class StackState:
    """Decoder state: what each layer remembers of earlier tokens per hypothesis, and the source per sentence."""

    layers: tuple[MixerState, ...]
    sources: tuple[Source, ...]
    """The source as each layer sees it, one row per sentence; empty without cross-attention"""
    index: CacheIndex
    intervention: Intervention | None = None

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "StackState":
        caches = [layer for layer in self.layers if isinstance(layer, KvCache)]
        index, selected = self.index.select(rows, sentences, caches)
        remaining = iter(selected)
        layers = tuple(next(remaining) if isinstance(layer, KvCache) else layer.select(rows) for layer in self.layers)
        sources = tuple(_select_source(source, rows, sentences) for source in self.sources)
        return StackState(layers, sources, index, self.intervention)

    def with_room(self, n_tokens: int) -> "StackState":
        """Return the state with room for so many tokens, more or fewer; its shapes then stay the same."""
        index = self.index.with_fixed_room(n_tokens)
        layers = tuple(layer.with_room(index.room) if isinstance(layer, KvCache) else layer for layer in self.layers)
        return replace(self, layers=layers, index=index)

    def keep(self, n_tokens: Tensor) -> "StackState":
        """Forget all but the first n_tokens [R] tokens of each hypothesis. All layers must have key-value caches."""
        return replace(self, index=self.index.keep(n_tokens))


def _select_source(source: Source, rows: Tensor, sentences: Tensor | None) -> Source:
    """Keep the given sentences; nothing is copied when all of them stay."""
    chosen = rows if sentences is None else sentences
    if sentences is not None and len(sentences) == len(source.mask):
        return source
    return Source(source.keys_values.select(chosen), source.mask.index_select(0, chosen))


class StackDecoder(nn.Module):
    """A stack of causal layers, with cross-attention to an encoded source of width `d_memory` if there is one."""

    def __init__(self, config: StackConfig, tokens: nn.Embedding, d_memory: int | None) -> None:
        super().__init__()
        self.embedding = _embedding(tokens, config)
        layers = [DecoderLayer(config.layer, config.decoder_mixer(), d_memory) for _ in range(config.n_layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = _last_norm(config)
        self.d_out = config.d_model
        self.max_len = config.max_positions
        self.max_memory_len = config.max_len if config.score == "location" else None
        attention = self.attention_modules("decoder") + self.attention_modules("cross")
        self.fused = all(module.fused for module in attention if isinstance(module, MultiHeadAttention))
        """Whether all attention uses the fused kernel, which adds the mask to the scores"""
        self.reads_at_once = all(isinstance(layer.mixer, SelfAttention) for layer in self._layers())
        """Whether several tokens can be read in one pass"""

    def forward(
        self, ids: Tensor, memory: Memory | None, need_trace: bool = False, intervention: Intervention | None = None
    ) -> Decoded:
        return self.decode(self.embedding(ids), memory, None, need_trace, intervention)

    def decode(
        self,
        x: Tensor,
        memory: Memory | None,
        mask: Tensor | None,
        need_trace: bool = False,
        intervention: Intervention | None = None,
    ) -> Decoded:
        """Decode embedded tokens x [B, T, D]. `mask` hides some of x's own positions, besides the causal mask."""
        self_traces: list[AttentionTrace | None] = []
        cross_traces: list[AttentionTrace | None] = []
        changes = self._changes(intervention, 0, x)
        for layer, source, change in zip(self.layers, self._sources(memory), changes, strict=True):
            x, self_trace, cross_trace = layer(x, source, mask, need_trace, change)
            self_traces.append(self_trace)
            cross_traces.append(cross_trace)
        return Decoded(self.norm(x), _without_none(self_traces), _without_none(cross_traces))

    def start(self, memory: Memory | None, rows: int, intervention: Intervention | None = None) -> StackState:
        like = self.embedding.tokens.weight
        layers = tuple(layer.mixer.start(rows, like) for layer in self._layers())
        sources = tuple(self._as_added(source) for source in self._sources(memory) if source is not None)
        index = CacheIndex.start(rows, like.device, MAX_SHARED if self.fused else 1, self.max_len)
        return StackState(layers, sources, index, intervention)

    def step(self, state: StackState, ids: Tensor) -> tuple[Tensor, StackState]:
        x, state = self.read_vectors(state, ids[:, None])
        return x[:, -1], state

    def read(self, state: StackState, ids: Tensor, lengths: Tensor | None = None) -> StackState:
        """Read several tokens per row, ids [R, n], or only the first `lengths` [R] of them."""
        if self.reads_at_once:
            return self.read_vectors(state, ids, lengths)[1]
        assert lengths is None
        for t in range(ids.shape[1]):
            state = self.step(state, ids[:, t])[1]
        return state

    def read_vectors(self, state: StackState, ids: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, StackState]:
        """Read the next tokens ids [R, n] in one pass → their vectors [R, n, D] and the state after them"""
        places, index = state.index.read(ids.shape[1], lengths)
        x = self.embedding.at(ids, places.positions, places.length)
        states = []
        start = 0 if state.intervention is None else int(places.positions.flatten()[0])
        changes = self._changes(state.intervention, start, x)
        with use_fused_kernels(x.device) if x.is_cuda and triton_is_installed() else nullcontext():
            for i, layer in enumerate(self._layers()):
                source = state.sources[i] if state.sources else None
                x, past = layer.step(x, state.layers[i], source, places, changes[i])
                states.append(past)
        return self.norm(x), replace(state, layers=tuple(states), index=index)

    def _as_added(self, source: Source) -> Source:
        """Turn a source's mask into what is added to the scores, once for all steps, if attention is fused."""
        return source._replace(mask=as_added(source.mask, source.keys_values.k.dtype)) if self.fused else source

    def attention_modules(self, kind: str) -> list[AttentionModule]:
        if kind not in ("decoder", "cross"):
            return []
        modules = [layer.cross if kind == "cross" else layer.mixer for layer in self._layers()]
        return [module for module in modules if isinstance(module, MultiHeadAttention)]

    def state_size(self, n_tokens: int) -> int:
        """Numbers that the layers remember per hypothesis after `n_tokens`; the source is not counted."""
        return sum(layer.mixer.state_size(n_tokens) for layer in self._layers())

    def _sources(self, memory: Memory | None) -> list[Source | None]:
        """Compute each layer's keys and values of the source, once per sentence."""
        if memory is None:
            return [None] * len(self.layers)
        keys_values = [layer.source_keys_values(memory.values) for layer in self._layers()]
        return [None if kv is None else Source(kv, memory.may_attend) for kv in keys_values]

    def _changes(self, intervention: Intervention | None, start: int, x: Tensor) -> list[LayerChange]:
        """Return the changes of all layers for tokens x [R, n, D] from position `start`."""
        if intervention is None:
            return [NO_CHANGE] * len(self.layers)
        modules = {kind: self.attention_modules(kind) for kind in ("decoder", "cross")}
        n_heads = {kind: of_kind[0].n_heads for kind, of_kind in modules.items() if of_kind}
        layers = range(len(self.layers))
        return [intervention.decoder_layer(i, n_heads, start, x.shape[1], x.device) for i in layers]

    def _layers(self) -> "list[DecoderLayer[MixerState]]":
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of values [B, S, D] over the positions where mask [B, S] is True → [B, D]"""
    weights = mask.to(values.dtype)[..., None]
    return (values * weights).sum(1) / weights.sum(1)


def _without_none(traces: list[AttentionTrace | None]) -> list[AttentionTrace]:
    """Leave out layers without a trace: those that are not attention, and all if no traces were requested."""
    return [trace for trace in traces if trace is not None]


def _embedding(tokens: nn.Embedding, config: StackConfig) -> Embedding:
    positions = None
    if config.positions in POSITIONS:
        positions = POSITIONS[config.positions](config.d_model, config.max_len)
    join = Add() if config.join == "add" else Concatenate(config.d_model)
    norm = make_norm(config.norm_kind, config.d_model, config.norm_eps) if config.embedding_norm else None
    return Embedding(tokens, positions, join, config.dropout, config.scale_embedding, norm)


def _last_norm(config: StackConfig) -> nn.Module:
    """With pre-norm layers the sum leaves the stack unnormalised, so one more norm follows the last layer."""
    return make_norm(config.norm_kind, config.d_model, config.norm_eps) if config.norm == "pre" else nn.Identity()
