"""Encoder-decoder models as PegasusForConditionalGeneration (pre-norm) or MarianMTModel (post-norm)."""

from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor
from transformers import MarianConfig, PegasusConfig, PreTrainedConfig

from regard.bundle import Bundle
from regard.convert.hf.layers import attention_maps, linear_tensors, norm_tensors, position_table, table_length
from regard.convert.hf.marian_tokenizer import is_marian
from regard.convert.hf.shape import ACTIVATIONS, hf_class
from regard.convert.hf.tokenizer import first_source_id
from regard.convert.id_map import NEVER
from regard.convert.split_positions import split_positions
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, TransformerConfig
from regard.models.stack import StackConfig, StackDecoder, StackEncoder
from regard.models.weights import load_weights, weights_of
from regard.nn.embedding import Embedding
from regard.text.vocab import BOS, EOS, PAD


def seq2seq_config(bundle: Bundle) -> PreTrainedConfig:
    """Return the content of config.json."""
    encoder, decoder, tied = _options(bundle)
    model = cast(EncoderDecoder, bundle.model)
    config_class: Any = MarianConfig if hf_class(bundle) == "MarianMTModel" else PegasusConfig
    tokenizers, separate = bundle.tokenizers, {}
    if _has_two_tables(bundle):
        separate = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": tokenizers.tgt.size}
    config: PreTrainedConfig = config_class(
        architectures=[hf_class(bundle)],
        vocab_size=first_source_id(tokenizers) + tokenizers.src.size,
        **separate,
        d_model=decoder.d_model,
        encoder_layers=encoder.n_layers,
        decoder_layers=decoder.n_layers,
        encoder_attention_heads=encoder.n_heads,
        decoder_attention_heads=decoder.n_heads,
        encoder_ffn_dim=encoder.d_ff,
        decoder_ffn_dim=decoder.d_ff,
        activation_function=ACTIVATIONS[decoder.activation],
        max_position_embeddings=table_length(bundle, encoder, decoder),
        dropout=decoder.dropout,
        attention_dropout=decoder.attention_dropout,
        scale_embedding=_embedding(model.decoder).scale != 1.0,
        tie_word_embeddings=tied,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=EOS,
    )
    return config


def seq2seq_tensors(bundle: Bundle) -> dict[str, Tensor]:
    """Return the content of model.safetensors."""
    encoder, decoder, _ = _options(bundle)
    marian = hf_class(bundle) == "MarianMTModel"
    model = cast(EncoderDecoder, bundle.model)
    model = _with_split_positions(model) if marian else model
    tensors = _tables(bundle, model)
    for side, stack in (("encoder", _stack(model.encoder)), ("decoder", _stack(model.decoder))):
        for i, layer in enumerate(stack.layers):
            tensors |= _layer_tensors(layer, f"model.{side}.layers.{i}")
        if not marian:  # which computes its positions, and has no norm after the last layer
            tensors |= norm_tensors(f"model.{side}.layer_norm", stack.norm)
            tensors[f"model.{side}.embed_positions.weight"] = position_table(
                stack, table_length(bundle, encoder, decoder)
            )
    return tensors


def _with_split_positions(model: EncoderDecoder) -> EncoderDecoder:
    """Return a copy whose positions are Marian's, which have all sines before all cosines."""
    copied = deepcopy(model)
    load_weights(copied, split_positions(weights_of(model)), "export")
    return copied


def _options(bundle: Bundle) -> tuple[StackConfig, StackConfig, bool]:
    config = bundle.model_config
    assert isinstance(config, TransformerConfig | EncoderDecoderConfig)
    config = config.as_encoder_decoder()
    return cast(StackConfig, config.encoder), cast(StackConfig, config.decoder), config.tied


def _stack(stack: object) -> StackEncoder | StackDecoder:
    assert isinstance(stack, StackEncoder | StackDecoder)
    return stack


def _embedding(stack: object) -> Embedding:
    embedding = _stack(stack).embedding
    assert embedding is not None
    return embedding


def _tables(bundle: Bundle, model: EncoderDecoder) -> dict[str, Tensor]:
    """Return embeddings, output layer and its bias.

    The tokens of a separate source vocabulary follow those of the target in one joint vocabulary; their probability as
    outputs is 0.
    """
    src: Tensor = _embedding(model.encoder).tokens.weight
    tgt: Tensor = _embedding(model.decoder).tokens.weight
    out: Tensor = model.output.weight
    bias: Tensor = out.new_zeros(len(out)) if model.output.bias is None else model.output.bias
    if first_source_id(bundle.tokenizers):
        bias = torch.cat([bias, torch.full((len(src),), NEVER)])
        out = torch.cat([out, torch.zeros_like(src)])
        src = tgt = torch.cat([tgt, src])
    _, _, tied = _options(bundle)
    two = _has_two_tables(bundle)
    tensors = {"final_logits_bias": bias[None]}
    if not two:
        tensors["model.shared.weight"] = tgt
    if two or not tied:
        tensors |= {"model.encoder.embed_tokens.weight": src, "model.decoder.embed_tokens.weight": tgt}
    return tensors if tied else {**tensors, "lm_head.weight": out}


def _has_two_tables(bundle: Bundle) -> bool:
    """Whether source and target have vocabularies of their own there too, as imported Marian models may have"""
    return is_marian(bundle.tokenizers) and not bundle.tokenizers.joint


def _layer_tensors(layer: Any, prefix: str) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    names = [("mixer", "self_attn"), ("cross", "encoder_attn")] if hasattr(layer, "cross") else [("mixer", "self_attn")]
    for ours, theirs in names:
        for name, (weight, bias) in attention_maps(getattr(layer, ours)).items():
            tensors |= linear_tensors(f"{prefix}.{theirs}.{name}_proj", weight, bias)
        tensors |= norm_tensors(f"{prefix}.{theirs}_layer_norm", getattr(layer, f"{ours}_residual").norm)
    for ours, theirs in (("inner", "fc1"), ("outer", "fc2")):
        linear = getattr(layer.feedforward, ours)
        tensors |= linear_tensors(f"{prefix}.{theirs}", linear.weight, linear.bias)
    return tensors | norm_tensors(f"{prefix}.final_layer_norm", layer.feedforward_residual.norm)
