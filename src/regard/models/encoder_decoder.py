"""Encoder and decoder, freely combined."""

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config
from regard.data.batch import Batch
from regard.models.image_encoder import ImageEncoder, ImageEncoderConfig
from regard.models.protocols import AttentionTraces, Decoder, Encoder, token_table
from regard.models.rnn import RnnDecoder, RnnDecoderConfig, RnnEncoder, RnnEncoderConfig
from regard.models.stack import FeedForwardConfig, SsmConfig, StackConfig, StackDecoder, StackEncoder
from regard.nn.state_space import SelectiveStateSpace

EncoderConfig = Annotated[
    StackConfig | SsmConfig | FeedForwardConfig | RnnEncoderConfig | ImageEncoderConfig, Field(discriminator="kind")
]
DecoderConfig = Annotated[StackConfig | SsmConfig | FeedForwardConfig | RnnDecoderConfig, Field(discriminator="kind")]


class EncoderDecoderConfig(Config):
    """Any encoder with any decoder."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"
    encoder: EncoderConfig = StackConfig()
    decoder: DecoderConfig = StackConfig()
    tied: bool = True
    """One matrix for the embeddings and the output layer (with separate vocabularies: of the target side)."""


class TransformerConfig(StackConfig):
    """The base model of "Attention Is All You Need", with the lectures' norm and activation as defaults."""

    n_decoder_layers: int | None = Field(None, ge=1)
    """By default as many as n_layers."""
    tied: bool = True
    """One matrix for the embeddings and the output layer (with separate vocabularies: of the target side)."""

    def parts(self) -> EncoderDecoderConfig:
        own = {"n_decoder_layers", "tied"}
        options = {name: getattr(self, name) for name in type(self).model_fields if name not in own}
        return EncoderDecoderConfig(
            encoder=StackConfig(**options),
            decoder=StackConfig(**{**options, "n_layers": self.n_decoder_layers or self.n_layers}),
            tied=self.tied,
        )


class EncoderDecoder(nn.Module):
    def __init__(
        self, config: EncoderDecoderConfig | TransformerConfig, vocab_size: int, src_vocab_size: int | None = None
    ) -> None:
        super().__init__()
        config = config.parts() if isinstance(config, TransformerConfig) else config
        tgt_tokens = token_table(vocab_size, config.decoder.d_model)
        share = config.tied and src_vocab_size is None and config.encoder.d_model == config.decoder.d_model
        src_tokens = tgt_tokens if share else token_table(src_vocab_size or vocab_size, config.encoder.d_model)
        self.encoder: Encoder = make_encoder(config.encoder, src_tokens)
        self.decoder: Decoder = make_decoder(config.decoder, tgt_tokens, self.encoder.d_model)
        self.d_model = config.decoder.d_model
        self.max_len = self.decoder.max_len
        """The longest sequence that has positions; None: any"""
        self.readout, self.output = output_layer(self.decoder.d_out, tgt_tokens, config.tied)
        initialise(self)
        if config.tied:
            self.output.weight = tgt_tokens.weight

    def forward(self, batch: Batch) -> Tensor:
        """Teacher forcing: logits [B, T, V] of each next target token."""
        return self.output(self.readout(self.decoder(batch.tgt_in, self.encoder(batch.src)).hidden))

    def layers(self) -> list[nn.Module]:
        """The repeated parts, which are compiled one by one: it takes a fraction of the time that the whole would."""
        return [*stacked(self.encoder), *stacked(self.decoder)]

    def watch(self, batch: Batch) -> tuple[Tensor, AttentionTraces]:
        """`forward` by the plain form of attention, and every layer and head of it at work."""
        memory = self.encoder(batch.src, need_trace=True)
        decoded = self.decoder(batch.tgt_in, memory, need_trace=True)
        return self.output(self.readout(decoded.hidden)), AttentionTraces(memory.traces, decoded.own, decoded.cross)

    def attention(self, batch: Batch) -> AttentionTraces:
        return self.watch(batch)[1]

    def room(self, batch: Batch) -> Tensor | None:
        """[B]: tokens a target can have at most, as BOS takes a place too; None: any number"""
        return None if self.max_len is None else torch.full_like(batch.lengths, self.max_len - 1)

    def start(self, batch: Batch) -> Any:
        return self.decoder.start(self.encoder(batch.src), batch.size)

    def step(self, state: Any, ids: Tensor) -> tuple[Tensor, Any]:
        """Read one token a row, ids [R] → log-probabilities of the next [R, V]"""
        h, state = self.decoder.step(state, ids)
        return F.log_softmax(self.output(self.readout(h)).float(), dim=-1), state


def make_encoder(config: Any, tokens: nn.Embedding) -> Any:
    match config:
        case RnnEncoderConfig():
            return RnnEncoder(config, tokens)
        case ImageEncoderConfig():
            return ImageEncoder(config)
    return StackEncoder(config, tokens)


def make_decoder(config: Any, tokens: nn.Embedding, d_memory: int | None) -> Any:
    if isinstance(config, RnnDecoderConfig):
        return RnnDecoder(config, tokens, d_memory)
    return StackDecoder(config, tokens, d_memory)


def output_layer(d_out: int, tokens: nn.Embedding, tied: bool) -> tuple[nn.Module, nn.Linear]:
    """The map to logits; a tied one reads vectors of the embeddings' width, so wider ones are mapped to it first."""
    vocab_size, d_model = tokens.weight.shape
    if tied and d_out != d_model:
        return nn.Linear(d_out, d_model), nn.Linear(d_model, vocab_size, bias=False)
    return nn.Identity(), nn.Linear(d_out, vocab_size, bias=False)


def stacked(part: Any) -> list[nn.Module]:
    """The layers of a stack that compiles; recurrent ones are kernels already."""
    part = getattr(part, "stack", part)
    return list(part.layers) if isinstance(part, StackEncoder | StackDecoder) else []


def initialise(model: nn.Module) -> None:
    """Xavier for every linear map, save in state spaces, which have a start of their own."""
    own = {part for module in model.modules() if isinstance(module, SelectiveStateSpace) for part in module.modules()}
    for module in model.modules():
        if isinstance(module, nn.Linear) and module not in own:
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
