"""The encoder-decoder Transformer."""

from dataclasses import dataclass
from typing import Literal, Self

import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.config import Config
from regard.data.batch import Batch
from regard.models.blocks import DecoderLayer, DecoderMemory, DecoderWeights, EncoderLayer, LayerConfig
from regard.nn.embedding import Add, Concatenate, Embedding
from regard.nn.masks import padding_mask
from regard.nn.positions import POSITIONS
from regard.text.vocab import PAD


class TransformerConfig(Config):
    """The base model of "Attention Is All You Need", with the lectures' norm and activation as defaults."""

    kind: Literal["transformer"] = "transformer"
    d_model: int = Field(512, ge=1)
    n_heads: int = Field(8, ge=1)
    d_ff: int = Field(2048, ge=1)
    n_layers: int = Field(6, ge=1)
    """Encoder layers; decoder layers too unless n_decoder_layers says otherwise."""
    n_decoder_layers: int | None = Field(None, ge=1)
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["gelu", "relu"] = "gelu"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    join: Literal["add", "concatenate"] = "add"
    """How token and position meet: added, or concatenated and mixed by a matrix."""
    max_len: int = Field(1024, ge=1)
    """Learned positions: the longest sequence; sinusoidal ones have no limit."""
    tied: bool = True
    """One matrix for the embeddings and the output layer (with separate vocabularies: of the target side)."""

    @model_validator(mode="after")
    def heads_divide_width(self) -> Self:
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} must divide d_model={self.d_model}")
        return self


@dataclass(frozen=True)
class TransformerState:
    """One row a hypothesis: the decoder layers' memories, the source mask, and how many tokens were read."""

    layers: tuple[DecoderMemory, ...]
    src_mask: Tensor
    length: int = 0

    def select(self, rows: Tensor) -> "TransformerState":
        layers = tuple(layer.select(rows) for layer in self.layers)
        return TransformerState(layers, self.src_mask.index_select(0, rows), self.length)


@dataclass(frozen=True)
class BatchWeights:
    """Attention weights of a batch, a list a kind with one [B, H, from, to] a layer."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class Transformer(nn.Module):
    def __init__(self, config: TransformerConfig, vocab_size: int, src_vocab_size: int | None = None) -> None:
        super().__init__()
        layer = LayerConfig(config.d_model, config.n_heads, config.d_ff, config.dropout, config.norm, config.activation)
        tgt_tokens = _token_table(vocab_size, config.d_model)
        share = config.tied and src_vocab_size is None
        src_tokens = tgt_tokens if share else _token_table(src_vocab_size or vocab_size, config.d_model)
        self.src_embedding = _embedding(src_tokens, config)
        self.tgt_embedding = _embedding(tgt_tokens, config)
        self.encoder = nn.ModuleList(EncoderLayer(layer) for _ in range(config.n_layers))
        n_decoder_layers = config.n_decoder_layers or config.n_layers
        self.decoder = nn.ModuleList(DecoderLayer(layer) for _ in range(n_decoder_layers))
        # Pre-norm layers leave their sum un-normed; the last one is normed here.
        self.encoder_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.output = nn.Linear(config.d_model, vocab_size, bias=False)
        self.d_model = config.d_model
        self.max_len = config.max_len if config.positions == "learned" else None
        """The longest sequence that has positions; None: any"""
        self._initialise()
        if config.tied:
            self.output.weight = tgt_tokens.weight

    def forward(self, batch: Batch) -> Tensor:
        """Teacher forcing: logits [B, T, V] of each next target token."""
        return self.output(self._run(batch)[0])

    def layers(self) -> list[nn.Module]:
        """The repeated parts, which are compiled one by one: it takes a fraction of the time that the whole would."""
        return [*self.encoder, *self.decoder]

    def attention(self, batch: Batch) -> BatchWeights:
        """The weights of every layer and head over a given target, by the plain form of attention."""
        _, encoder, decoder = self._run(batch, need_weights=True)
        return BatchWeights(
            encoder=[_present(w) for w in encoder],
            decoder=[_present(w.decoder) for w in decoder],
            cross=[_present(w.cross) for w in decoder],
        )

    def start(self, batch: Batch) -> TransformerState:
        src_mask = padding_mask(batch.src, PAD)
        return TransformerState(self._memories(self._encode(batch.src, src_mask)[0]), src_mask)

    def step(self, state: TransformerState, ids: Tensor) -> tuple[Tensor, TransformerState]:
        """Read one token a row, ids [R] → log-probabilities of the next [R, V]"""
        x = self.tgt_embedding(ids[:, None], start=state.length)
        x, layers, _ = self._decode(x, state.layers, state.src_mask)
        log_probs = F.log_softmax(self.output(x[:, -1]).float(), dim=-1)
        return log_probs, TransformerState(layers, state.src_mask, state.length + 1)

    def _run(
        self, batch: Batch, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor | None], list[DecoderWeights]]:
        src_mask = padding_mask(batch.src, PAD)
        memory, encoder_weights = self._encode(batch.src, src_mask, need_weights)
        y = self.tgt_embedding(batch.tgt_in)
        y, _, decoder_weights = self._decode(y, self._memories(memory), src_mask, need_weights)
        return y, encoder_weights, decoder_weights

    def _encode(self, src: Tensor, src_mask: Tensor, need_weights: bool = False) -> tuple[Tensor, list[Tensor | None]]:
        x, weights = self.src_embedding(src), []
        for layer in self.encoder:
            x, w = layer(x, src_mask, need_weights)
            weights.append(w)
        return self.encoder_norm(x), weights

    def _memories(self, memory: Tensor) -> tuple[DecoderMemory, ...]:
        """Each layer's keys and values of the source, computed once a sentence."""
        return tuple(DecoderMemory(None, layer.cross_attention.keys_values(memory)) for layer in self._decoder())

    def _decode(
        self, x: Tensor, memories: tuple[DecoderMemory, ...], src_mask: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, tuple[DecoderMemory, ...], list[DecoderWeights]]:
        after, weights = [], []
        for layer, memory in zip(self.decoder, memories, strict=True):
            x, memory, w = layer(x, memory, src_mask, need_weights)
            after.append(memory)
            weights.append(w)
        return self.decoder_norm(x), tuple(after), weights

    def _decoder(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def _token_table(vocab_size: int, d_model: int) -> nn.Embedding:
    table = nn.Embedding(vocab_size, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table


def _embedding(tokens: nn.Embedding, config: TransformerConfig) -> Embedding:
    positions = POSITIONS[config.positions](config.d_model, config.max_len)
    join = Add() if config.join == "add" else Concatenate(config.d_model)
    return Embedding(tokens, positions, join, config.dropout)


def _present(weights: Tensor | None) -> Tensor:
    assert weights is not None, "asked for with need_weights"
    return weights.detach()
