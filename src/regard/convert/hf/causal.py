"""Decoder-only models as GPT2LMHeadModel, or with rotary positions as Starcoder2ForCausalLM or LlamaForCausalLM."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import GPT2Config, LlamaConfig, PreTrainedConfig, Starcoder2Config

from regard.bundle import Bundle
from regard.convert.hf.layers import Map, attention_maps, linear_tensors, norm_tensors, position_table, table_length
from regard.convert.hf.shape import ACTIVATIONS, hf_class
from regard.convert.hf.suppressed import suppressed_ids
from regard.convert.id_map import SUPPRESSED
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.stack import StackConfig, StackDecoder
from regard.nn.feedforward import FeedForward, GatedFeedForward
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
    if suppressed := suppressed_ids(bundle):
        common[SUPPRESSED] = suppressed
    if hf_class(bundle) == "GPT2LMHeadModel":
        return GPT2Config(
            **common,
            n_positions=table_length(bundle, options),
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
    common |= {
        "max_position_embeddings": table_length(bundle, options),
        "hidden_size": options.d_model,
        "intermediate_size": options.d_ff,
        "num_hidden_layers": options.n_layers,
        "num_attention_heads": options.n_heads,
        "num_key_value_heads": options.n_kv_heads or options.n_heads,
        "rope_parameters": _rope_parameters(options),
        "attention_dropout": options.attention_dropout,
    }
    if hf_class(bundle) == "Starcoder2ForCausalLM":
        return Starcoder2Config(
            **common,
            hidden_act=ACTIVATIONS[options.activation],
            norm_epsilon=eps,
            use_bias=options.bias,
            residual_dropout=options.dropout,
            embedding_dropout=options.dropout,
        )
    return LlamaConfig(
        **common,
        head_dim=options.heads.key_width,
        rms_norm_eps=torch.finfo(torch.float32).eps if eps is None else eps,
        attention_bias=options.bias,
        mlp_bias=options.bias,
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
    suppressed = suppressed_ids(bundle)
    tokens = _as_eos(stack.embedding.tokens.weight * scale, [i for i in suppressed if i != BOS])  # which is read
    tensors = {"transformer.wte.weight" if gpt2 else "model.embed_tokens.weight": tokens}
    if not tied:
        tensors["lm_head.weight"] = _as_eos(cast(DecoderOnly, bundle.model).output.weight, suppressed)
    if gpt2:
        tensors["transformer.wpe.weight"] = position_table(stack, table_length(bundle, _options(bundle)[0]))
    layer_tensors = _gpt2_layer if gpt2 else _rotary_layer
    for i, layer in enumerate(stack.layers):
        tensors |= layer_tensors(layer, i)
    return tensors | last


def _as_eos(table: Tensor, ids: list[int]) -> Tensor:
    """Give tokens the row of EOS. Without our bias the logits of suppressed ones, whose rows are 0, could be high."""
    return table.index_copy(0, torch.tensor(ids, dtype=torch.int64), table[[EOS] * len(ids)]) if ids else table


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


def _rotary_layer(layer: Any, i: int) -> dict[str, Tensor]:
    prefix = f"model.layers.{i}"
    maps = attention_maps(layer.mixer, grouped=True)
    linears = {f"self_attn.{name}_proj": maps["out" if name == "o" else name] for name in "qkvo"}
    linears |= {f"mlp.{name}": linear for name, linear in _feed_forward(layer.feedforward).items()}
    tensors = norm_tensors(f"{prefix}.input_layernorm", layer.mixer_residual.norm)
    tensors |= norm_tensors(f"{prefix}.post_attention_layernorm", layer.feedforward_residual.norm)
    for name, (weight, bias) in linears.items():
        tensors[f"{prefix}.{name}.weight"] = weight
        if bias is not None:
            tensors[f"{prefix}.{name}.bias"] = bias
    return tensors


def _feed_forward(feed_forward: nn.Module) -> dict[str, Map]:
    """Return the maps of Llama's gated feed-forward layer, or of Starcoder's."""
    assert isinstance(feed_forward, FeedForward | GatedFeedForward)
    inner, outer = feed_forward.inner, feed_forward.outer
    if isinstance(feed_forward, FeedForward):
        return {"c_fc": (inner.weight, inner.bias), "c_proj": (outer.weight, outer.bias)}
    gate, up = inner.weight.chunk(2)
    biases = (None, None) if inner.bias is None else inner.bias.chunk(2)
    return {"gate_proj": (gate, biases[0]), "up_proj": (up, biases[1]), "down_proj": (outer.weight, outer.bias)}


def _join(maps: list[Map]) -> Map:
    """Stack linear maps of the same input."""
    biases = [bias for _, bias in maps if bias is not None]
    return torch.cat([weight for weight, _ in maps]), torch.cat(biases) if biases else None
