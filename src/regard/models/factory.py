"""Builds encoders, decoders and output layers from their options."""

from typing import Annotated, NamedTuple, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.models.image_encoder import ImageEncoder, ImageEncoderConfig
from regard.models.protocols import Decoder, DecoderState, Encoder
from regard.models.rnn import RnnDecoder, RnnDecoderConfig, RnnEncoder, RnnEncoderConfig
from regard.models.stack import FeedForwardConfig, SsmConfig, StackConfig, StackDecoder, StackEncoder
from regard.nn.kernels.switch import triton_is_installed
from regard.nn.state_space import SelectiveStateSpace

StackConfigs = StackConfig | SsmConfig | FeedForwardConfig
EncoderConfig = Annotated[StackConfigs | RnnEncoderConfig | ImageEncoderConfig, Field(discriminator="kind")]
DecoderConfig = Annotated[StackConfigs | RnnDecoderConfig, Field(discriminator="kind")]


def make_encoder(config: EncoderConfig, tokens: nn.Embedding) -> Encoder:
    """Make the encoder of that kind; an image encoder does not use `tokens`."""
    match config:
        case RnnEncoderConfig():
            return RnnEncoder(config, tokens)
        case ImageEncoderConfig():
            return ImageEncoder(config)
    return StackEncoder(config, tokens)


def make_decoder(config: DecoderConfig, tokens: nn.Embedding, d_memory: int | None) -> Decoder[DecoderState]:
    """Make the decoder of that kind, for an encoded source of width `d_memory` or without a source."""
    if isinstance(config, RnnDecoderConfig):
        return cast(Decoder[DecoderState], RnnDecoder(config, tokens, d_memory))
    return cast(Decoder[DecoderState], StackDecoder(config, tokens, d_memory))


def make_embedding_table(vocab_size: int, d_model: int) -> nn.Embedding:
    """Make an embedding table with standard deviation 1/√D."""
    table = nn.Embedding(vocab_size, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table


def make_output_layer(d_out: int, tokens: nn.Embedding, tied: bool, bias: bool = False) -> tuple[nn.Module, nn.Linear]:
    """Make (readout, output): a map to the width that the output layer expects, and the output layer itself.

    A tied output layer has the width of the embeddings, so a wider decoder output is projected first.
    """
    vocab_size, d_model = tokens.weight.shape
    if tied and d_out != d_model:
        return nn.Linear(d_out, d_model), nn.Linear(d_model, vocab_size, bias=bias)
    return nn.Identity(), nn.Linear(d_out, vocab_size, bias=bias)


class Logits(NamedTuple):
    """log p = values − log_sums"""

    values: Tensor
    """[R, V]"""
    log_sums: Tensor
    """[R, 1]: log Σ exp of each row"""


def next_logits(output: nn.Module, h: Tensor) -> Logits:
    """Return the logits W h + b of the next token in float32, on a GPU without a pass to normalise them;  h [R, D]"""
    if h.device.type == "cuda" and h.dtype == torch.bfloat16 and isinstance(output, nn.Linear):
        # Logits rounded to bf16 would be equal for many tokens.
        values = torch.mm(h, output.weight.T, out_dtype=torch.float32)
        values = values if output.bias is None else values + output.bias
    else:
        values = output(h).float()
    if values.is_cuda and triton_is_installed():
        from regard.nn.kernels.log_sum import log_sums

        return Logits(values, log_sums(values))
    return Logits(F.log_softmax(values, dim=-1), values.new_zeros(1, 1))


def log_probabilities(output: nn.Module, h: Tensor) -> Tensor:
    """log softmax(W h) in float32;  h [R, D] → [R, V]"""
    values, log_sums = next_logits(output, h)
    return values - log_sums if values.is_cuda else values


def layers_to_compile(*parts: object) -> list[nn.Module]:
    """Return the repeated layers, which are compiled one by one. Recurrent layers are single kernels already."""
    stacks = [getattr(part, "stack", part) for part in parts]
    return [layer for stack in stacks if isinstance(stack, StackEncoder | StackDecoder) for layer in stack.layers]


def initialise(model: nn.Module) -> None:
    """Initialise every linear map by Xavier, except in state spaces, which have their own initialisation."""
    skipped = {m for module in model.modules() if isinstance(module, SelectiveStateSpace) for m in module.modules()}
    for module in model.modules():
        if isinstance(module, nn.Linear) and module not in skipped:
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
