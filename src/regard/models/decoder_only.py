"""Decoder-only models: a language model, and a translator that reads the source as the start of its text."""

from typing import Literal, cast

import torch
from torch import Tensor, nn

from regard.config import Config
from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.factory import (
    DecoderConfig,
    Logits,
    initialise,
    layers_to_compile,
    log_probabilities,
    make_decoder,
    make_embedding_table,
    make_output_layer,
    next_logits,
)
from regard.models.intervention import Intervention
from regard.models.protocols import AttentionModule, AttentionTraces, Decoded, DecoderState
from regard.models.stack import StackConfig, StackDecoder, StackState
from regard.nn.masks import padding_mask
from regard.text.vocab import BOS, EOS, PAD, SEP


class DecoderOnlyConfig(Config):
    """Any decoder without an encoder."""

    kind: Literal["decoder"] = "decoder"
    decoder: DecoderConfig = StackConfig()
    tied: bool = True
    """Share one matrix between embeddings and output layer."""
    output_bias: bool = False
    """Add a number per token to the logits, which is not trained; imported models suppress special tokens by it."""

    @property
    def can_concatenate(self) -> bool:
        """Whether source and target can form one sequence; this needs softmax attention, which can mask padding"""
        return (
            self.decoder.kind == "transformer"
            and self.decoder.attention == "softmax"
            and self.decoder.score != "location"
        )


CONCATENATION_ERROR = (
    "translation by concatenation needs softmax attention: set model.decoder.kind=transformer; "
    "the other decoders generate text, or translate with an encoder"
)


class DecoderOnly(nn.Module):
    """p(y_t | y_<t), or with a source p(y_t | x, SEP, y_<t): one sequence, of which only the target is predicted."""

    can_hide_tokens = False

    def __init__(self, config: DecoderOnlyConfig, vocab_size: int, src_vocab_size: int | None = None) -> None:
        super().__init__()
        if src_vocab_size is not None:
            raise UserError("a decoder-only model reads source and target as one text; set tokenizer.joint=true")
        tokens = make_embedding_table(vocab_size, config.decoder.d_model)
        self.decoder = make_decoder(config.decoder, tokens, None)
        self.d_model = config.decoder.d_model
        self.max_len = self.decoder.max_len
        self.can_concatenate = config.can_concatenate
        self.has_limited_context = self.max_len is not None or self.can_concatenate
        """Whether the model sees a limited number of tokens at once; a recurrent state has no such limit"""
        self.readout, self.output = make_output_layer(self.decoder.d_out, tokens, config.tied, config.output_bias)
        initialise(self)
        if self.output.bias is not None:
            self.output.bias.requires_grad_(False)
        if config.tied:
            self.output.weight = tokens.weight

    @property
    def max_source_tokens(self) -> int | None:
        """Most tokens of a source, leaving room for SEP, BOS and one target token; None: no limit"""
        return None if self.max_len is None else self.max_len - 3

    def forward(self, batch: Batch, intervention: Intervention | None = None) -> Tensor:
        """Logits [B, T, V] of each next target token"""
        hidden = self._decode(batch, intervention=intervention).hidden
        return self.output(self.readout(hidden[:, batch.src.shape[1] :]))

    def embed(self, src: Tensor) -> Tensor:
        """Return each text as one vector [B, D]: the mean of the decoder's vectors of its tokens; 0 without tokens.

        src [B, S]: ids ending in EOS, as for an encoder
        """
        is_token = (src != PAD) & (src != EOS)
        ids = torch.cat([torch.full_like(src[:, :1], BOS), src[:, :-1]], dim=1)
        hidden = self.decoder(ids, None).hidden[:, 1:]
        weights = is_token[:, :-1, None].to(hidden)
        return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)

    def layers_to_compile(self) -> list[nn.Module]:
        return layers_to_compile(self.decoder)

    def trace_attention(self, batch: Batch, intervention: Intervention | None = None) -> AttentionTraces:
        """Source and target are one sequence that attends to itself; `cross` is the part target × source."""
        n, traces = batch.src.shape[1], self._decode(batch, True, intervention).self_traces
        if n == 0:
            return AttentionTraces([], traces, [])
        source, target = slice(None, n), slice(n, None)
        return AttentionTraces(
            encoder=[trace.part(source, source) for trace in traces],
            decoder=[trace.part(target, target) for trace in traces],
            cross=[trace.part(target, source) for trace in traces],
        )

    def attention_modules(self, kind: str) -> list[AttentionModule]:
        """Attention of kind "decoder", one module per layer; other kinds are empty"""
        return self.decoder.attention_modules(kind) if kind == "decoder" else []

    def max_target_len(self, batch: Batch) -> Tensor | None:
        """[B]: most tokens that each target can have after its source and BOS; None: no limit"""
        return None if self.max_len is None else (self.max_len - 1 - batch.lengths).clamp(min=1)

    def start(self, batch: Batch, intervention: Intervention | None = None) -> DecoderState:
        """Read the sources, if there are any, and return the state before the first target token."""
        state = self.decoder.start(None, batch.size, intervention)
        if batch.src.shape[1] == 0:
            return state
        stack = self._stack()
        if self.max_len is not None and batch.src.shape[1] + 2 > self.max_len:
            raise UserError(
                f"a source of {batch.src.shape[1]} tokens leaves no room for its target within {self.max_len} learned "
                "positions; split it, or train with a larger model.decoder.max_len"
            )
        ids = torch.where(batch.src == EOS, SEP, batch.src)
        return stack.read(cast(StackState, state), ids, batch.lengths)

    def read(self, state: DecoderState, ids: Tensor) -> DecoderState:
        """Read several tokens per row, ids [R, n], in one pass where the decoder can."""
        return self.decoder.read(state, ids)

    def step(self, state: DecoderState, ids: Tensor) -> tuple[Tensor, DecoderState]:
        """Read one token per row, ids [R] → log-probabilities of the next token [R, V]"""
        h, state = self.decoder.step(state, ids)
        return log_probabilities(self.output, self.readout(h)), state

    def step_logits(self, state: DecoderState, ids: Tensor) -> tuple[Logits, DecoderState]:
        """Like `step`, but the log-probabilities are not subtracted yet, which saves a pass over the vocabulary."""
        h, state = self.decoder.step(state, ids)
        return next_logits(self.output, self.readout(h)), state

    def _decode(self, batch: Batch, need_trace: bool = False, intervention: Intervention | None = None) -> Decoded:
        if batch.src.shape[1] == 0:
            return self.decoder(batch.tgt_in, None, need_trace, intervention)
        stack = self._stack()
        source, n_padding = pad_left(batch.src)
        ids = torch.cat([source, batch.tgt_in], dim=1)
        x = stack.embedding(ids, n_padding=n_padding)
        return stack.decode(x, None, padding_mask(n_padding, ids.shape[1]), need_trace, intervention)

    def _stack(self) -> StackDecoder:
        if not self.can_concatenate or not isinstance(self.decoder, StackDecoder):
            raise UserError(CONCATENATION_ERROR)
        return self.decoder


def pad_left(src: Tensor) -> tuple[Tensor, Tensor]:
    """Move padding from right to left and replace EOS by SEP;  src [B, S] → ids [B, S], padding per row [B]

    The target then follows its source directly, and the distance between two tokens is the same in any batch.
    """
    n_padding = (src == PAD).sum(1)
    positions = torch.arange(src.shape[1], device=src.device) - n_padding[:, None]
    moved = src.gather(1, positions % src.shape[1])
    return torch.where(moved == EOS, SEP, moved), n_padding
