"""Encoder-only: a text in, a vector a token or one for all of it out."""

from typing import Literal

from torch import Tensor, nn

from regard.config import Config
from regard.data.batch import Batch
from regard.models.encoder_decoder import EncoderConfig, initialise, make_encoder, stacked
from regard.models.protocols import AttentionTraces, token_table
from regard.models.stack import StackConfig


class EncoderOnlyConfig(Config):
    kind: Literal["encoder"] = "encoder"
    encoder: EncoderConfig = StackConfig()
    head: Literal["tokens", "label"] = "tokens"
    """What is predicted: masked tokens at their places, or one label of the whole text."""


class EncoderOnly(nn.Module):
    def __init__(self, config: EncoderOnlyConfig, vocab_size: int, src_vocab_size: int | None = None) -> None:
        """For labels, `vocab_size` counts the labels and `src_vocab_size` the tokens of the text."""
        super().__init__()
        tokens = token_table(src_vocab_size or vocab_size, config.encoder.d_model)
        self.encoder = make_encoder(config.encoder, tokens)
        self.d_model = config.encoder.d_model
        self.max_len = getattr(config.encoder, "longest", None)
        self.label = config.head == "label"
        self.dropout = nn.Dropout(config.encoder.dropout)
        self.output = nn.Linear(self.d_model, vocab_size)
        initialise(self)
        if not self.label:
            self.output.weight = tokens.weight

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, S, V] of the token at each place, or [B, 1, labels]"""
        memory = self.encoder(batch.src)
        if self.label:
            return self.output(self.dropout(memory.summary))[:, None]
        return self.output(memory.values)

    def embed(self, src: Tensor) -> Tensor:
        """The text as one vector [B, D]: the mean over its tokens"""
        return self.encoder(src).summary

    def layers(self) -> list[nn.Module]:
        return stacked(self.encoder)

    def attention(self, batch: Batch) -> AttentionTraces:
        return AttentionTraces(self.encoder(batch.src, need_trace=True).traces, [], [])
