"""Decoder-only: a language model, and a translator whose source stands in front of the target."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Config
from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.encoder_decoder import DecoderConfig, initialise, make_decoder, output_layer, stacked
from regard.models.protocols import AttentionTraces, Decoded, token_table
from regard.models.stack import StackConfig, StackDecoder, StackState, seen
from regard.text.vocab import EOS, PAD, SEP


class DecoderOnlyConfig(Config):
    kind: Literal["decoder"] = "decoder"
    decoder: DecoderConfig = StackConfig()
    tied: bool = True
    """One matrix for the embeddings and the output layer."""

    @property
    def concatenates(self) -> bool:
        """Whether a source can stand in front: what pads it must be left out of what a token sees"""
        return (
            self.decoder.kind == "transformer"
            and self.decoder.attention == "softmax"
            and self.decoder.score != "location"
        )


CONCATENATION = (
    "translation by concatenation needs softmax attention: model.decoder.kind=transformer; "
    "the other decoders write text, or translate behind an encoder"
)


class DecoderOnly(nn.Module):
    """p(y_t | y_<t), or with a source p(y_t | x, SEP, y_<t): one sequence, and only its target is asked for."""

    def __init__(self, config: DecoderOnlyConfig, vocab_size: int, src_vocab_size: int | None = None) -> None:
        super().__init__()
        if src_vocab_size is not None:
            raise UserError("a decoder-only model reads source and target as one text; set tokenizer.joint=true")
        tokens = token_table(vocab_size, config.decoder.d_model)
        self.decoder = make_decoder(config.decoder, tokens, None)
        self.d_model = config.decoder.d_model
        self.max_len = self.decoder.max_len
        self.concatenates = config.concatenates
        self.has_window = self.max_len is not None or self.concatenates
        """Whether it knows no more than so many tokens at once, and not all that it ever read"""
        self.readout, self.output = output_layer(self.decoder.d_out, tokens, config.tied)
        initialise(self)
        if config.tied:
            self.output.weight = tokens.weight

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, T, V] of each next target token"""
        return self.output(self.readout(self._run(batch).hidden[:, batch.src.shape[1] :]))

    def layers(self) -> list[nn.Module]:
        return stacked(self.decoder)

    def attention(self, batch: Batch) -> AttentionTraces:
        """Source and target are one sequence that attends to itself: `cross` is its part target × source."""
        n, own = batch.src.shape[1], self._run(batch, need_trace=True).own
        if n == 0:
            return AttentionTraces([], own, [])
        source, target = slice(None, n), slice(n, None)
        return AttentionTraces(
            encoder=[trace.part(source, source) for trace in own],
            decoder=[trace.part(target, target) for trace in own],
            cross=[trace.part(target, source) for trace in own],
        )

    def room(self, batch: Batch) -> Tensor | None:
        """[B]: tokens a target can have at most behind its source and BOS; None: any number"""
        return None if self.max_len is None else (self.max_len - 1 - batch.lengths).clamp(min=1)

    def start(self, batch: Batch) -> Any:
        state = self.decoder.start(None, batch.size)
        if batch.src.shape[1] == 0:
            return state
        ids, before = in_front(batch.src)
        stack = self._stack()
        if self.max_len is not None and ids.shape[1] + 2 > self.max_len:
            raise UserError(
                f"a source of {ids.shape[1]} tokens leaves no place for its target among {self.max_len} learned "
                "positions; split it, or train with model.decoder.max_len raised"
            )
        return stack.read(StackState(state.layers, (), None, before), ids)[1]

    def step(self, state: Any, ids: Tensor) -> tuple[Tensor, Any]:
        """Read one token a row, ids [R] → log-probabilities of the next [R, V]"""
        h, state = self.decoder.step(state, ids)
        return F.log_softmax(self.output(self.readout(h)).float(), dim=-1), state

    def _run(self, batch: Batch, need_trace: bool = False) -> Decoded:
        if batch.src.shape[1] == 0:
            return self.decoder(batch.tgt_in, None, need_trace)
        stack = self._stack()
        source, before = in_front(batch.src)
        ids = torch.cat([source, batch.tgt_in], dim=1)
        x = stack.embedding(ids, before=before)
        return stack.decode(x, None, seen(before, ids.shape[1]), need_trace)

    def _stack(self) -> StackDecoder:
        if not self.concatenates or not isinstance(self.decoder, StackDecoder):
            raise UserError(CONCATENATION)
        return self.decoder


def in_front(src: Tensor) -> tuple[Tensor, Tensor]:
    """src [B, S] with padding on the right → the same with SEP for EOS and the padding on the left, and its width [B]

    So every row's target follows its source at once, and how far apart two tokens stand is the same in any batch.
    """
    before = (src == PAD).sum(1)
    places = torch.arange(src.shape[1], device=src.device) - before[:, None]
    moved = src.gather(1, places % src.shape[1])
    return torch.where(moved == EOS, SEP, moved), before
