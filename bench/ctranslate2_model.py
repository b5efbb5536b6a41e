"""Our model as a CTranslate2 model, to compare speeds: the same weights in both engines."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.models.encoder_decoder import EncoderDecoder
from regard.text.vocab import SPECIALS


def ctranslate2_translator(model: EncoderDecoder, n_heads: int, vocab: int, threads: int) -> Any:
    """Return a ctranslate2.Translator with the weights of a Transformer (pre-norm, GELU, sinusoids)."""
    import ctranslate2
    from ctranslate2.specs import TransformerSpec, common_spec

    sides = model.encoder, model.decoder
    n_layers = tuple(len(side.layers) for side in sides)  # type: ignore[arg-type]
    spec = TransformerSpec.from_config(n_layers, n_heads, pre_norm=True, activation=common_spec.Activation.GELU)
    spec.encoder.embeddings[0].weight = _array(model.encoder.embedding.tokens.weight)  # type: ignore[union-attr]
    spec.decoder.embeddings.weight = _array(model.decoder.embedding.tokens.weight)  # type: ignore[union-attr]
    spec.decoder.projection.weight = _array(model.output.weight)
    for side_spec, side in ((spec.encoder, sides[0]), (spec.decoder, sides[1])):
        side_spec.scale_embeddings = True
        side_spec.position_encodings.encodings = _array(side.embedding.positions.table)  # type: ignore[union-attr]
        _norm(side_spec.layer_norm, side.norm)
        for layer_spec, layer in zip(side_spec.layer, side.layers, strict=True):  # type: ignore[arg-type]
            _layer(layer_spec, layer)
    symbols = [*SPECIALS, *(f"t{i}" for i in range(len(SPECIALS), vocab))]
    spec.register_source_vocabulary(symbols)
    spec.register_target_vocabulary(symbols)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = SPECIALS[2], SPECIALS[3], SPECIALS[1]
    spec.config.decoder_start_token = SPECIALS[2]
    spec.validate()
    spec.optimize(quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(str(Path(folder)))
        return ctranslate2.Translator(folder, device="cpu", compute_type="float32", intra_threads=threads)


def _layer(spec: Any, layer: Any) -> None:
    _joined(spec.self_attention.linear[0], layer.mixer.query, layer.mixer.key_value)
    _linear(spec.self_attention.linear[1], layer.mixer.out)
    _norm(spec.self_attention.layer_norm, layer.mixer_residual.norm)
    if getattr(layer, "cross", None) is not None:
        maps = layer.cross.query, layer.cross.key_value, layer.cross.out
        for linear_spec, linear in zip(spec.attention.linear, maps, strict=True):
            _linear(linear_spec, linear)
        _norm(spec.attention.layer_norm, layer.cross_residual.norm)
    _linear(spec.ffn.linear_0, layer.feedforward.inner)
    _linear(spec.ffn.linear_1, layer.feedforward.outer)
    _norm(spec.ffn.layer_norm, layer.feedforward_residual.norm)


def _linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _joined(spec: Any, *linears: nn.Linear) -> None:
    spec.weight = np.concatenate([_array(linear.weight) for linear in linears])
    spec.bias = np.concatenate([_array(linear.bias) for linear in linears])


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()
