"""Encoder-decoder models: any encoder with any decoder."""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import Config
from regard.data.batch import Batch
from regard.models.factory import (
    DecoderConfig,
    EncoderConfig,
    Logits,
    initialise,
    layers_to_compile,
    log_probabilities,
    make_decoder,
    make_embedding_table,
    make_encoder,
    make_output_layer,
    next_logits,
)
from regard.models.intervention import Intervention
from regard.models.protocols import AttentionModule, AttentionTraces, DecoderState
from regard.models.sizes import LayerCount
from regard.models.stack import StackConfig, StackDecoder, StackState


class EncoderDecoderConfig(Config):
    """Any encoder with any decoder."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"
    encoder: EncoderConfig = StackConfig()
    decoder: DecoderConfig = StackConfig()
    tied: bool = True
    """Share one matrix between embeddings and output layer (with separate vocabularies: on the target side)."""
    output_bias: bool = False
    """Add a number per token to the logits."""

    def as_encoder_decoder(self) -> "EncoderDecoderConfig":
        return self


class TransformerConfig(StackConfig):
    """The base model of "Attention Is All You Need", with the lectures' norm and activation as defaults."""

    n_decoder_layers: LayerCount | None = None
    """Default: n_layers."""
    tied: bool = True
    """Share one matrix between embeddings and output layer (with separate vocabularies: on the target side)."""
    output_bias: bool = False
    """Add a number per token to the logits."""

    def as_encoder_decoder(self) -> EncoderDecoderConfig:
        """Split into the options of encoder and decoder."""
        options = {name: getattr(self, name) for name in StackConfig.model_fields}
        return EncoderDecoderConfig(
            encoder=StackConfig(**options),
            decoder=StackConfig(**{**options, "n_layers": self.n_decoder_layers or self.n_layers}),
            tied=self.tied,
            output_bias=self.output_bias,
        )


class EncoderDecoder(nn.Module):
    """p(y_t | y_<t, x): the encoder reads the source, the decoder generates the target."""

    def __init__(
        self, config: EncoderDecoderConfig | TransformerConfig, vocab_size: int, src_vocab_size: int | None = None
    ) -> None:
        super().__init__()
        config = config.as_encoder_decoder()
        tgt_tokens = make_embedding_table(vocab_size, config.decoder.d_model)
        share = config.tied and src_vocab_size is None and config.encoder.d_model == config.decoder.d_model
        src_tokens = tgt_tokens if share else make_embedding_table(src_vocab_size or vocab_size, config.encoder.d_model)
        self.encoder = make_encoder(config.encoder, src_tokens)
        self.decoder = make_decoder(config.decoder, tgt_tokens, self.encoder.d_model)
        self.d_model = config.decoder.d_model
        self.max_len = self.decoder.max_len
        """Longest target, counting BOS; None: no limit"""
        self.readout, self.output = make_output_layer(self.decoder.d_out, tgt_tokens, config.tied, config.output_bias)
        initialise(self)
        if config.tied:
            self.output.weight = tgt_tokens.weight

    @property
    def max_source_tokens(self) -> int | None:
        """Most source tokens, not counting EOS; None: no limit"""
        limits = [n for n in (self.encoder.max_len, self.decoder.max_memory_len) if n is not None]
        return min(limits) - 1 if limits else None

    @property
    def can_hide_tokens(self) -> bool:
        return self.encoder.can_hide_tokens

    def forward(self, batch: Batch, intervention: Intervention | None = None) -> Tensor:
        """Teacher forcing: logits [B, T, V] of each next target token"""
        memory = self.encoder(batch.src, intervention=intervention)
        return self.output(self.readout(self.decoder(batch.tgt_in, memory, intervention=intervention).hidden))

    def embed(self, src: Tensor) -> Tensor:
        """Encode each source as one vector [B, D], the encoder's summary."""
        return self.encoder(src).summary

    def layers_to_compile(self) -> list[nn.Module]:
        return layers_to_compile(self.encoder, self.decoder)

    def forward_traced(self, batch: Batch, intervention: Intervention | None = None) -> tuple[Tensor, AttentionTraces]:
        """Like `forward`, but by the unfused form of attention; returns the traces of all layers too."""
        memory = self.encoder(batch.src, True, intervention)
        decoded = self.decoder(batch.tgt_in, memory, True, intervention)
        traces = AttentionTraces(memory.traces, decoded.self_traces, decoded.cross_traces)
        return self.output(self.readout(decoded.hidden)), traces

    def trace_attention(self, batch: Batch, intervention: Intervention | None = None) -> AttentionTraces:
        return self.forward_traced(batch, intervention)[1]

    def attention_modules(self, kind: str) -> list[AttentionModule]:
        """Attention of kind "encoder", "decoder" or "cross", one module per layer; empty if there is none"""
        return self.encoder.attention_modules() if kind == "encoder" else self.decoder.attention_modules(kind)

    def max_target_len(self, batch: Batch) -> Tensor | None:
        """[B]: most tokens that each target can have (BOS takes one position); None: no limit"""
        return None if self.max_len is None else torch.full_like(batch.lengths, self.max_len - 1)

    def start(self, batch: Batch, intervention: Intervention | None = None) -> DecoderState:
        """Encode the sources and return the decoder state before the first target token."""
        return self.decoder.start(self.encoder(batch.src, intervention=intervention), batch.size, intervention)

    def step(self, state: DecoderState, ids: Tensor) -> tuple[Tensor, DecoderState]:
        """Read one token per row, ids [R] → log-probabilities of the next token [R, V]"""
        h, state = self.decoder.step(state, ids)
        return log_probabilities(self.output, self.readout(h)), state

    def step_logits(self, state: DecoderState, ids: Tensor) -> tuple[Logits, DecoderState]:
        """Like `step`, but the log-probabilities are not subtracted yet, which saves a pass over the vocabulary."""
        h, state = self.decoder.step(state, ids)
        return next_logits(self.output, self.readout(h)), state

    @property
    def reads_at_once(self) -> bool:
        """Whether `read_logits` can be used: the decoder is a stack of layers with key-value caches"""
        return isinstance(self.decoder, StackDecoder) and self.decoder.reads_at_once

    def read_logits(self, state: StackState, ids: Tensor) -> tuple[Logits, StackState]:
        """Read several tokens per row in one pass, ids [R, n] → logits after each of them [R · n, V]"""
        assert isinstance(self.decoder, StackDecoder)
        h, state = self.decoder.read_vectors(state, ids)
        return next_logits(self.output, self.readout(h.flatten(0, 1))), state
