"""Stacks of layers: Transformers, and what becomes of them when tokens meet in another way."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.config import Config
from regard.models.layers import DecoderLayer, EncoderLayer, LayerConfig
from regard.models.protocols import Decoded, Memory, mean_of, present
from regard.nn.attention import AttentionTrace, Heads, SelfAttention
from regard.nn.embedding import Add, Concatenate, Embedding
from regard.nn.kv_cache import KeyValue
from regard.nn.mixers import BidirectionalStateSpace, LinearAttention, StateSpace, Window
from regard.nn.positions import POSITIONS
from regard.nn.residual import NORMS
from regard.text.vocab import PAD

PositionKind = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]


class StackConfig(Config):
    """A stack of layers. `kind` says how tokens see each other."""

    kind: Literal["transformer"] = "transformer"
    d_model: int = Field(512, ge=1)
    n_heads: int = Field(8, ge=1)
    n_kv_heads: int | None = Field(None, ge=1)
    """Heads of keys and values, shared by groups of queries; by default as many as n_heads."""
    d_ff: int = Field(2048, ge=1)
    n_layers: int = Field(6, ge=1)
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Of the weights of softmax attention; `dropout` is of what a sub-layer adds, and of the embeddings."""
    norm: Literal["pre", "post"] = "pre"
    norm_kind: Literal["layer", "rms"] = "layer"
    activation: Literal["gelu", "relu", "swiglu"] = "gelu"
    bias: bool = True
    """Whether the linear maps of a layer have one."""
    positions: PositionKind = "sinusoidal"
    join: Literal["add", "concatenate"] = "add"
    """How token and position meet: added, or concatenated and mixed by a matrix."""
    max_len: int = Field(1024, ge=1)
    """Learned positions and the location score: the longest sequence; the others have no limit."""
    attention: Literal["softmax", "linear"] = "softmax"
    """linear leaves the softmax of self-attention out: its cost grows with the length, not with its square."""
    feature: Literal["identity", "elu"] = "elu"
    """φ of linear attention: identity is the lecture's; elu + 1 divides the weights by their sum."""
    score: Literal["dot", "scaled-dot", "cosine", "bilinear", "additive", "location"] = "scaled-dot"
    normalise: Literal["softmax", "sum", "none"] = "softmax"

    @model_validator(mode="after")
    def heads_divide(self) -> Self:
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} must divide d_model={self.d_model}")
        if self.n_kv_heads and self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads={self.n_kv_heads} must divide n_heads={self.n_heads}")
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            raise ValueError("rotary positions need heads of an even width")
        if self.attention == "linear" and (
            self.n_kv_heads or self.attention_dropout or (self.score, self.normalise) != ("scaled-dot", "softmax")
        ):
            raise ValueError(
                "attention=linear has no n_kv_heads, score, normalise or attention_dropout; leave them out"
            )
        if self.positions in ("rotary", "alibi") and self.attention == "linear":
            raise ValueError(f"positions={self.positions} acts on softmax attention; use sinusoidal or learned")
        return self

    @property
    def longest(self) -> int | None:
        """The longest sequence that has positions; None: any"""
        return self.max_len if self.positions == "learned" or self.score == "location" else None

    @property
    def heads(self) -> Heads:
        return Heads(
            self.d_model,
            self.n_heads,
            self.n_kv_heads,
            self.score,
            self.normalise,
            self.bias,
            self.max_len,
            self.attention_dropout,
        )

    @property
    def layer(self) -> LayerConfig:
        return LayerConfig(self.heads, self.d_ff, self.dropout, self.norm, self.norm_kind, self.activation, self.bias)

    def mixer(self, causal: bool) -> nn.Module | None:
        if self.attention == "linear":
            return LinearAttention(self.heads, causal, self.feature)
        return SelfAttention(self.heads, causal, self.positions)


class SsmConfig(StackConfig):
    kind: Literal["ssm"] = "ssm"  # type: ignore[assignment]
    positions: PositionKind = "none"
    d_state: int = Field(16, ge=1)

    def mixer(self, causal: bool) -> nn.Module | None:
        return (StateSpace if causal else BidirectionalStateSpace)(self.d_model, self.d_state)


class FeedForwardConfig(StackConfig):
    """Layers that see one token (encoder) or a fixed number of them (decoder)."""

    kind: Literal["feedforward"] = "feedforward"  # type: ignore[assignment]
    window: int = Field(4, ge=1)
    """Tokens that a decoder's first layer sees at once."""

    def mixer(self, causal: bool) -> nn.Module | None:
        return Window(self.d_model, self.window) if causal else None


class StackEncoder(nn.Module):
    """Without `tokens`, what it encodes has been embedded elsewhere."""

    def __init__(self, config: StackConfig, tokens: nn.Embedding | None) -> None:
        super().__init__()
        self.embedding = None if tokens is None else _embedding(tokens, config)
        self.layers = nn.ModuleList(
            EncoderLayer(config.layer, config.mixer(causal=False)) for _ in range(config.n_layers)
        )
        self.norm = _last_norm(config)
        self.d_model = config.d_model

    def forward(self, src: Tensor, need_trace: bool = False) -> Memory:
        """src [B, S] ids"""
        assert self.embedding is not None
        return self.encode(self.embedding(src), src != PAD, need_trace)

    def encode(self, x: Tensor, mask: Tensor, need_trace: bool = False) -> Memory:
        traces: list[AttentionTrace | None] = []
        for layer in self.layers:
            x, trace = layer(x, mask[:, None, None, :], need_trace)
            traces.append(trace)
        x = self.norm(x)
        return Memory(x, mask, mean_of(x, mask), present(traces))


@dataclass(frozen=True)
class StackState:
    """One row a hypothesis: what each layer remembers, the source as each layer sees it, and how much was read."""

    layers: tuple[Any, ...]
    sources: tuple[KeyValue, ...]
    may_attend: Tensor | None
    """[R, 1, 1, S] of the source"""
    before: Tensor | None = None
    """[R]: places of padding in front of a prompt"""
    length: int = 0

    def select(self, rows: Tensor) -> "StackState":
        def chosen(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.index_select(0, rows)

        layers = tuple(layer.select(rows) for layer in self.layers)
        sources = tuple(source.select(rows) for source in self.sources)
        return StackState(layers, sources, chosen(self.may_attend), chosen(self.before), self.length)


class StackDecoder(nn.Module):
    """Causal layers, with cross-attention to a memory of width `d_memory` or without."""

    def __init__(self, config: StackConfig, tokens: nn.Embedding, d_memory: int | None) -> None:
        super().__init__()
        self.embedding = _embedding(tokens, config)
        layers = [DecoderLayer(config.layer, config.mixer(causal=True), d_memory) for _ in range(config.n_layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = _last_norm(config)
        self.d_out = config.d_model
        self.max_len = config.longest

    def forward(self, ids: Tensor, memory: Memory | None, need_trace: bool = False) -> Decoded:
        return self.decode(self.embedding(ids), memory, None, need_trace)

    def decode(self, x: Tensor, memory: Memory | None, mask: Tensor | None, need_trace: bool = False) -> Decoded:
        """x [B, T, D]; mask: of x's own places, beside the causal one"""
        own: list[AttentionTrace | None] = []
        cross: list[AttentionTrace | None] = []
        for layer, source in zip(self.layers, self._sources(memory), strict=True):
            x, of_own, of_source = layer(x, source, None if memory is None else memory.may_attend, mask, need_trace)
            own.append(of_own)
            cross.append(of_source)
        return Decoded(self.norm(x), present(own), present(cross))

    def start(self, memory: Memory | None, rows: int) -> StackState:
        like = self.embedding.tokens.weight
        layers = tuple(layer.mixer.start(rows, like) for layer in self._layers())
        if memory is None:
            return StackState(layers, (), None)
        return StackState(layers, tuple(s for s in self._sources(memory) if s is not None), memory.may_attend)

    def step(self, state: StackState, ids: Tensor) -> tuple[Tensor, StackState]:
        x, state = self.read(state, ids[:, None])
        return x[:, -1], state

    def read(self, state: StackState, ids: Tensor) -> tuple[Tensor, StackState]:
        """The tokens ids [R, n] that follow → their vectors [R, n, D]"""
        x = self.embedding(ids, start=state.length, before=state.before)
        length = state.length + ids.shape[1]
        mask = None if state.before is None else seen(state.before, length, ids.shape[1])
        after = []
        for i, layer in enumerate(self._layers()):
            source = state.sources[i] if state.sources else None
            x, past = layer.step(x, state.layers[i], source, state.may_attend, mask)
            after.append(past)
        return self.norm(x), StackState(tuple(after), state.sources, state.may_attend, state.before, length)

    def _sources(self, memory: Memory | None) -> list[KeyValue | None]:
        """Each layer's keys and values of the source, computed once a sentence."""
        return [None if memory is None else layer.sources(memory.values) for layer in self._layers()]

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]


def seen(before: Tensor, length: int, n_queries: int | None = None) -> Tensor:
    """[R, 1, Tq, length]: a place of the prompt is seen if it is not padding, or is the query's own.

    (A query that is padding itself must see something, or it would have no weights at all.)
    """
    places = torch.arange(length, device=before.device)
    real = places >= before[:, None]
    own = places == places[length - (n_queries or length) :, None]
    return (real[:, None, :] | own)[:, None]


def _embedding(tokens: nn.Embedding, config: StackConfig) -> Embedding:
    positions = None
    if config.positions in POSITIONS:
        positions = POSITIONS[config.positions](config.d_model, config.max_len)
    join = Add() if config.join == "add" else Concatenate(config.d_model)
    return Embedding(tokens, positions, join, config.dropout)


def _last_norm(config: StackConfig) -> nn.Module:
    """Pre-norm layers leave their sum un-normed; the last one is normed behind the stack."""
    return NORMS[config.norm_kind](config.d_model) if config.norm == "pre" else nn.Identity()
