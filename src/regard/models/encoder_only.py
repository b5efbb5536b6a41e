"""Encoder-only models: classify a text, or fill in masked tokens."""

from typing import Literal, Self

from pydantic import model_validator
from torch import Tensor, nn

from regard.config import Config
from regard.data.batch import Batch
from regard.models.factory import (
    EncoderConfig,
    initialise,
    layers_to_compile,
    make_embedding_table,
    make_encoder,
)
from regard.models.intervention import Intervention
from regard.models.protocols import AttentionModule, AttentionTraces, Memory
from regard.models.stack import StackConfig
from regard.nn.attention import AttentionTrace
from regard.nn.feedforward import ACTIVATIONS
from regard.nn.pooling import AttentionPooling
from regard.nn.residual import make_norm


class EncoderOnlyConfig(Config):
    """Any encoder without a decoder."""

    kind: Literal["encoder"] = "encoder"
    encoder: EncoderConfig = StackConfig()
    head: Literal["tokens", "label"] = "tokens"
    """What the model predicts: masked tokens, or one label for the whole text."""
    transform: bool = False
    """Predict tokens from norm(φ(W h + b)) instead of the encoder's output h, as BERT does."""
    pooling: Literal["summary", "attention"] = "summary"
    """How token vectors become the vector of a text: the encoder's summary (their mean; of an RNN its last states), or
    attention with a learned query."""

    @model_validator(mode="after")
    def _check_pooling(self) -> Self:
        if self.pooling == "attention" and self.head == "tokens":
            raise ValueError("pooling=attention learns from labels; use head=label, or leave it out")
        if self.transform and not isinstance(self.encoder, StackConfig):
            raise ValueError("transform=true needs a Transformer encoder; leave it out")
        return self


class EncoderOnly(nn.Module):
    """p(x_i | other tokens) for masked tokens, or p(label | x)."""

    def __init__(self, config: EncoderOnlyConfig, vocab_size: int, src_vocab_size: int | None = None) -> None:
        """For labels, `vocab_size` counts the labels and `src_vocab_size` the tokens of the text."""
        super().__init__()
        tokens = make_embedding_table(src_vocab_size or vocab_size, config.encoder.d_model)
        self.encoder = make_encoder(config.encoder, tokens)
        self.d_model = config.encoder.d_model
        self.max_len = self.encoder.max_len
        self.predicts_label = config.head == "label"
        self.pooling = AttentionPooling(self.d_model) if config.pooling == "attention" else None
        self.dropout = nn.Dropout(config.encoder.dropout)
        self.transform = _transform(config.encoder) if config.transform and not self.predicts_label else None
        self.output = nn.Linear(self.d_model, vocab_size)
        initialise(self)
        if not self.predicts_label:
            self.output.weight = tokens.weight

    @property
    def max_source_tokens(self) -> int | None:
        """Most source tokens, not counting EOS; None: no limit"""
        return None if self.max_len is None else self.max_len - 1

    @property
    def can_hide_tokens(self) -> bool:
        return self.encoder.can_hide_tokens

    def forward(self, batch: Batch, intervention: Intervention | None = None) -> Tensor:
        """Logits [B, S, V] of the token at each position, or [B, 1, labels]"""
        memory = self.encoder(batch.src, intervention=intervention)
        if self.predicts_label:
            return self.output(self.dropout(self._summary(memory)))[:, None]
        return self.output(memory.values if self.transform is None else self.transform(memory.values))

    def embed(self, src: Tensor) -> Tensor:
        """Encode each text as one vector [B, D]."""
        return self._summary(self.encoder(src))

    def layers_to_compile(self) -> list[nn.Module]:
        return layers_to_compile(self.encoder)

    def trace_attention(self, batch: Batch, intervention: Intervention | None = None) -> AttentionTraces:
        memory = self.encoder(batch.src, True, intervention)
        pooled = [] if self.pooling is None else [self.pooling(memory.values, memory.mask)]
        return AttentionTraces(memory.traces, [], [AttentionTrace(*(t[:, None] for t in trace)) for trace in pooled])

    def attention_modules(self, kind: str) -> list[AttentionModule]:
        """Attention of kind "encoder", one module per layer, or "cross", which is attention pooling"""
        if kind == "cross" and self.pooling is not None:
            return [self.pooling]
        return self.encoder.attention_modules() if kind == "encoder" else []

    def _summary(self, memory: Memory) -> Tensor:
        if self.pooling is None:
            return memory.summary
        return self.pooling(memory.values, memory.mask).output[:, 0]


def _transform(config: EncoderConfig) -> nn.Module:
    """φ(W h + b), normalised; with SwiGLU layers φ is SiLU"""
    assert isinstance(config, StackConfig)
    activation = ACTIVATIONS["silu" if config.activation == "swiglu" else config.activation]()
    norm = make_norm(config.norm_kind, config.d_model, config.norm_eps)
    return nn.Sequential(nn.Linear(config.d_model, config.d_model), activation, norm)
