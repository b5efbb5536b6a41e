"""Decoder-only models as GPT2LMHeadModel or LlamaForCausalLM."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import GPT2Config, LlamaConfig, PreTrainedConfig

from regard.bundle import Bundle
from regard.convert.hf_layers import Map, attention_maps, linear_tensors, norm_tensors, position_table, table_length
from regard.convert.hf_shape import ACTIVATIONS, hf_class
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.stack import StackConfig, StackDecoder
from regard.text.vocab import BOS, EOS, PAD


def causal_config(bundle: Bundle) -> PreTrainedConfig:
    """Return the content of config.json."""
    options, tied = _options(bundle)
    stack = _stack(bundle)
    eps = cast(nn.LayerNorm, stack.norm).eps
    common: dict[str, Any] = {
        "architectures": [hf_class(bundle)],
        "vocab_size": bundle.tokenizers.tgt.size,
        "tie_word_embeddings": tied,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    if hf_class(bundle) == "GPT2LMHeadModel":
        return GPT2Config(
            **common,
            n_positions=table_length(options),
            n_embd=options.d_model,
            n_layer=options.n_layers,
            n_head=options.n_heads,
            n_inner=options.d_ff,
            activation_function=ACTIVATIONS[options.activation],
            layer_norm_epsilon=eps,
            embd_pdrop=options.dropout,
            resid_pdrop=options.dropout,
            attn_pdrop=options.attention_dropout,
        )
    return LlamaConfig(
        **common,
        max_position_embeddings=table_length(options),
        hidden_size=options.d_model,
        intermediate_size=options.d_ff,
        num_hidden_layers=options.n_layers,
        num_attention_heads=options.n_heads,
        num_key_value_heads=options.n_kv_heads or options.n_heads,
        head_dim=options.heads.key_width,
        rope_parameters=_rope_parameters(options),
        rms_norm_eps=torch.finfo(torch.float32).eps if eps is None else eps,
        attention_bias=options.bias,
        mlp_bias=options.bias,
        attention_dropout=options.attention_dropout,
    )


def _rope_parameters(options: StackConfig) -> dict[str, Any]:
    scaling = options.rope_scaling
    if scaling is None:
        return {"rope_type": "default", "rope_theta": options.rope_theta}
    return {
        "rope_type": "llama3",
        "rope_theta": options.rope_theta,
        "factor": scaling.factor,
        "low_freq_factor": scaling.low,
        "high_freq_factor": scaling.high,
        "original_max_position_embeddings": scaling.context,
    }


def causal_tensors(bundle: Bundle) -> dict[str, Tensor]:
    """Return the content of model.safetensors."""
    _, tied = _options(bundle)
    stack, gpt2 = _stack(bundle), hf_class(bundle) == "GPT2LMHeadModel"
    scale = stack.embedding.scale
    # Their embeddings are not scaled, so ours are multiplied once; the last norm makes up for it in a tied output.
    last = norm_tensors("transformer.ln_f" if gpt2 else "model.norm", stack.norm, 1 / scale if tied else 1.0)
    tensors = {"transformer.wte.weight" if gpt2 else "model.embed_tokens.weight": stack.embedding.tokens.weight * scale}
    if not tied:
        tensors["lm_head.weight"] = cast(DecoderOnly, bundle.model).output.weight
    if gpt2:
        tensors["transformer.wpe.weight"] = position_table(stack, table_length(_options(bundle)[0]))
    layer_tensors = _gpt2_layer if gpt2 else _llama_layer
    for i, layer in enumerate(stack.layers):
        tensors |= layer_tensors(layer, i)
    return tensors | last


def _options(bundle: Bundle) -> tuple[StackConfig, bool]:
    assert isinstance(bundle.model_config, DecoderOnlyConfig)
    return cast(StackConfig, bundle.model_config.decoder), bundle.model_config.tied


def _stack(bundle: Bundle) -> StackDecoder:
    stack = cast(DecoderOnly, bundle.model).decoder
    assert isinstance(stack, StackDecoder)
    return stack


def _gpt2_layer(layer: Any, i: int) -> dict[str, Tensor]:
    prefix = f"transformer.h.{i}"
    maps = attention_maps(layer.mixer)
    linears: dict[str, Map] = {
        "attn.c_attn": _join([maps[name] for name in "qkv"]),
        "attn.c_proj": maps["out"],
        "mlp.c_fc": (layer.feedforward.inner.weight, layer.feedforward.inner.bias),
        "mlp.c_proj": (layer.feedforward.outer.weight, layer.feedforward.outer.bias),
    }
    tensors = norm_tensors(f"{prefix}.ln_1", layer.mixer_residual.norm)
    tensors |= norm_tensors(f"{prefix}.ln_2", layer.feedforward_residual.norm)
    for name, linear in linears.items():
        made = linear_tensors(f"{prefix}.{name}", *linear)
        tensors |= {name: tensor.T if tensor.dim() == 2 else tensor for name, tensor in made.items()}
    return tensors


def _llama_layer(layer: Any, i: int) -> dict[str, Tensor]:
    prefix = f"model.layers.{i}"
    maps = attention_maps(layer.mixer, grouped=True)
    inner, outer = layer.feedforward.inner, layer.feedforward.outer
    gates = zip(inner.weight.chunk(2), (None, None) if inner.bias is None else inner.bias.chunk(2), strict=True)
    linears: dict[str, Map] = {
        **{f"self_attn.{name}_proj": maps["out" if name == "o" else name] for name in "qkvo"},
        **dict(zip(("mlp.gate_proj", "mlp.up_proj"), gates, strict=True)),
        "mlp.down_proj": (outer.weight, outer.bias),
    }
    tensors = norm_tensors(f"{prefix}.input_layernorm", layer.mixer_residual.norm)
    tensors |= norm_tensors(f"{prefix}.post_attention_layernorm", layer.feedforward_residual.norm)
    for name, (weight, bias) in linears.items():
        tensors[f"{prefix}.{name}.weight"] = weight
        if bias is not None:
            tensors[f"{prefix}.{name}.bias"] = bias
    return tensors


def _join(maps: list[Map]) -> Map:
    """Stack linear maps of the same input."""
    biases = [bias for _, bias in maps if bias is not None]
    return torch.cat([weight for weight, _ in maps]), torch.cat(biases) if biases else None
