"""Build a CTranslate2 model from a Transformer of ours."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from ctranslate2.specs import ModelSpec, common_spec, transformer_spec
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.alignment.from_attention import Aligner
from regard.bundle import Bundle
from regard.convert.ctranslate2.attention_weights import Projection, attention_weights, head_width
from regard.convert.export_format import Quantization
from regard.convert.id_map import NEVER
from regard.convert.position_count import position_count
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.layers import DecoderLayer, EncoderLayer
from regard.models.stack import StackDecoder, StackEncoder
from regard.nn.attention import MultiHeadAttention, SelfAttention
from regard.nn.embedding import Concatenate, Embedding
from regard.nn.feedforward import FeedForward, GatedFeedForward, TanhGELU
from regard.nn.positions import LearnedPositions, SinusoidalPositions
from regard.nn.residual import LayerNorm
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import BOS, EOS, NEVER_GENERATED, SPECIALS, UNK

_ACTIVATIONS = {
    nn.ReLU: common_spec.Activation.RELU,
    nn.GELU: common_spec.Activation.GELU,
    TanhGELU: common_spec.Activation.GELUTanh,
    nn.SiLU: common_spec.Activation.SWISH,
}


def ctranslate2_spec(bundle: Bundle, quantization: Quantization = "float32") -> ModelSpec:
    """Return the model in CTranslate2's form, ready for `save`. `ctranslate2_problem` says whether it can be made."""
    model = bundle.model
    assert isinstance(model, EncoderDecoder | DecoderOnly) and isinstance(model.decoder, StackDecoder)
    n_positions = position_count(bundle)
    decoder = _decoder(model.decoder, model.output, bundle.alignment, n_positions)
    if isinstance(model, EncoderDecoder):
        assert isinstance(model.encoder, StackEncoder)
        spec = transformer_spec.TransformerSpec(_encoder(model.encoder, n_positions), decoder)
        spec.register_source_vocabulary(vocabulary(bundle.tokenizers.src))
        spec.register_target_vocabulary(vocabulary(bundle.tokenizers.tgt))
        spec.config.add_source_eos = True
        spec.config.decoder_start_token = SPECIALS[BOS]
    else:
        spec = transformer_spec.TransformerDecoderModelSpec(decoder)
        spec.register_vocabulary(vocabulary(bundle.tokenizers.tgt))
    spec.config.layer_norm_epsilon = _norm_epsilon(model)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (SPECIALS[i] for i in (UNK, BOS, EOS))
    spec.validate()
    spec.optimize(quantization)
    return spec


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the token of each id. A token that occurs twice, or that is not valid Unicode, gets a name of its own."""
    names = list(SPECIALS)
    taken = set(names)
    for i, token in enumerate(tokenizer.tokens(range(len(SPECIALS), tokenizer.size)), len(SPECIALS)):
        is_new = token not in taken and token.encode("utf-8", "ignore").decode() == token
        names.append(token if is_new else f"<id {i}>")
        taken.add(names[-1])
    return names


def _norm_epsilon(model: nn.Module) -> float:
    """Return the ε of the model's norms; CTranslate2 has one for all."""
    norms = (module for module in model.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm))
    [epsilon] = {torch.finfo(torch.float32).eps if norm.eps is None else norm.eps for norm in norms}
    return epsilon


def _encoder(stack: StackEncoder, n_positions: int) -> transformer_spec.TransformerEncoderSpec:
    layers = [layer for layer in stack.layers if isinstance(layer, EncoderLayer)]
    assert stack.embedding is not None
    spec = transformer_spec.TransformerEncoderSpec(len(layers), **_options(layers, stack.embedding))
    _embed(spec, spec.embeddings[0], stack.embedding, n_positions)
    for part, layer in zip(spec.layer, layers, strict=True):
        assert isinstance(layer.mixer, SelfAttention) and layer.mixer_residual is not None
        _attend(part.self_attention, layer.mixer, layer.mixer_residual.norm)
        _feed_forward(part.ffn, layer.feedforward, layer.feedforward_residual.norm)
    if not isinstance(stack.norm, nn.Identity):
        _norm(spec.layer_norm, stack.norm)
    return spec


def _decoder(
    stack: StackDecoder, output: nn.Linear, aligner: Aligner, n_positions: int
) -> transformer_spec.TransformerDecoderSpec:
    layers = [layer for layer in stack.layers if isinstance(layer, DecoderLayer)]
    spec = transformer_spec.TransformerDecoderSpec(
        len(layers),
        **_options(layers, stack.embedding),
        with_encoder_attention=layers[0].cross is not None,
        alignment_layer=-1 if aligner.layer is None else aligner.layer,
        alignment_heads=0 if aligner.head is None else 1,  # 0: all
        alibi=stack.attention_modules("decoder")[0].score_bias == "alibi",
    )
    _embed(spec, spec.embeddings, stack.embedding, n_positions)
    for part, layer in zip(spec.layer, layers, strict=True):
        assert isinstance(layer.mixer, SelfAttention)
        _attend(part.self_attention, layer.mixer, layer.mixer_residual.norm)
        if layer.cross is not None and layer.cross_residual is not None:
            _attend(part.attention, layer.cross, layer.cross_residual.norm, aligner.head or 0)
        _feed_forward(part.ffn, layer.feedforward, layer.feedforward_residual.norm)
    if not isinstance(stack.norm, nn.Identity):
        _norm(spec.layer_norm, stack.norm)
    bias = torch.zeros(output.out_features) if output.bias is None else output.bias.clone()
    bias[list(NEVER_GENERATED)] = NEVER
    _linear(spec.projection, Projection(output.weight, bias))
    return spec


def _options(layers: Sequence[EncoderLayer] | Sequence[DecoderLayer[Any]], embedding: Embedding) -> dict[str, Any]:
    """Return the options that encoder and decoder have in common."""
    attention, feedforward, residual = layers[0].mixer, layers[0].feedforward, layers[0].feedforward_residual
    assert isinstance(attention, SelfAttention)
    d_key, width = attention.widths[0], head_width(attention)
    options = {
        "num_heads": attention.n_heads,
        "num_heads_kv": None if attention.n_kv_heads == attention.n_heads else attention.n_kv_heads,
        "head_dim": width,
        "pre_norm": residual.pre,
        "rms_norm": not isinstance(residual.norm, LayerNorm),
        "activation": _activation(feedforward),
        "ffn_glu": isinstance(feedforward, GatedFeedForward),
        "layernorm_embedding": embedding.norm is not None,
    }
    if attention.positions == "rotary":
        options |= {"rotary_dim": d_key if d_key < width else 0, "rotary_interleave": False}
        options |= {"rotary_base": attention.rope.theta}
    return options


def _activation(feedforward: nn.Module) -> common_spec.Activation:
    if isinstance(feedforward, GatedFeedForward):
        return common_spec.Activation.SWISH
    assert isinstance(feedforward, FeedForward)
    return _ACTIVATIONS[type(feedforward.activation)]


def _embed(spec: Any, tokens: common_spec.EmbeddingsSpec, embedding: Embedding, n_positions: int) -> None:
    """Write token and position vectors. CTranslate2 adds them; a matrix that joins them is multiplied into both."""
    table = embedding.tokens.weight
    match embedding.positions:
        case SinusoidalPositions() as sinusoidal:
            positions = sinusoidal(n_positions)
        case LearnedPositions() as learned:
            positions = learned.table
        case _:
            positions = table.new_zeros(n_positions, table.shape[1])
    if embedding.positions is not None and isinstance(embedding.join, Concatenate):
        for_tokens, for_positions = embedding.join.mix.weight.chunk(2, dim=1)
        table, positions = table @ for_tokens.T, positions @ for_positions.T
    tokens.weight = _array(table)
    spec.scale_embeddings = embedding.scale != 1.0
    if embedding.norm is not None:
        _norm(spec.layernorm_embedding, embedding.norm)
    if hasattr(spec, "position_encodings"):  # without a table, CTranslate2 would add a sinusoid of its own
        spec.position_encodings.encodings = _array(positions)


def _attend(spec: Any, attention: MultiHeadAttention, norm: nn.Module, first_head: int = 0) -> None:
    weights = attention_weights(attention, first_head)
    if isinstance(attention, SelfAttention):
        _linear(spec.linear[0], weights.query.then(weights.key_value))
    else:
        _linear(spec.linear[0], weights.query)
        _linear(spec.linear[1], weights.key_value)
    _linear(spec.linear[-1], weights.out)
    _norm(spec.layer_norm, norm)


def _feed_forward(spec: transformer_spec.FeedForwardSpec, module: nn.Module, norm: nn.Module) -> None:
    assert isinstance(module, FeedForward | GatedFeedForward)
    inner = Projection(module.inner.weight, module.inner.bias)
    if isinstance(module, GatedFeedForward):
        gate, inner = inner.halves()
        _linear(spec.linear_0, gate)
        _linear(spec.linear_0_noact, inner)
    else:
        _linear(spec.linear_0, inner)
    _linear(spec.linear_1, Projection(module.outer.weight, module.outer.bias))
    _norm(spec.layer_norm, norm)


def _linear(spec: common_spec.LinearSpec, projection: Projection) -> None:
    spec.weight = _array(projection.weight)
    if projection.bias is not None:
        spec.bias = _array(projection.bias)


def _norm(spec: common_spec.LayerNormSpec, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a copy, because CTranslate2 quantises arrays in place."""
    return tensor.detach().to("cpu", torch.float32, copy=True).contiguous().numpy()
