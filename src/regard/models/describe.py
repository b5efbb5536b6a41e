"""Describes a model from its modules; see `description`."""

import torch
from torch import nn

from regard.models import Model
from regard.models.decoder_only import DecoderOnly
from regard.models.description import (
    AttentionPart,
    Axis,
    EmbeddingDescription,
    FeedForwardPart,
    ImageDescription,
    LayerDescription,
    ModelDescription,
    NormDescription,
    OutputDescription,
    Part,
    RecurrentPart,
    StackDescription,
    StackName,
    StateSpacePart,
    WindowPart,
)
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.image_encoder import ImageEncoder
from regard.models.layers import DecoderLayer, EncoderLayer
from regard.models.rnn import RnnAttention, RnnDecoder, RnnEncoder
from regard.models.stack import StackDecoder, StackEncoder
from regard.nn.attention import MultiHeadAttention, SelfAttention
from regard.nn.embedding import Concatenate, Embedding
from regard.nn.feedforward import ACTIVATIONS, FeedForward, GatedFeedForward
from regard.nn.mixers import BidirectionalStateSpace, LinearAttention, StateSpace, Window
from regard.nn.positions import SinusoidalPositions
from regard.nn.recurrent import BidirectionalLayer, ForwardLayer
from regard.nn.residual import Residual

_BLOCK_NORM = "{}.norm"


def describe(model: Model, has_source: bool = True) -> ModelDescription:
    """Describe a model; `has_source` is False for a language model."""
    match model:
        case EncoderDecoder():
            encoder = _encoder(model.encoder)
            stacks = [encoder, _decoder(model.decoder, "read", "encoder")]
            architecture, rows = "encoder-decoder", stacks[-1].rows
            shared = _token_table(model.encoder) is _token_table(model.decoder)
        case DecoderOnly():
            stacks = [_decoder(model.decoder, "sequence" if has_source else "read", None)]
            architecture, rows, shared = "decoder-only", stacks[0].rows, False
        case EncoderOnly():
            stacks = [_encoder(model.encoder)]
            architecture, rows, shared = "encoder-only", "text" if model.predicts_label else "source", False
    output = _output(model, rows)
    return ModelDescription.model_validate(
        {
            "architecture": architecture,
            "stacks": stacks,
            "output": output,
            "blocks": [block for stack in stacks for block in _blocks(stack)] + [output.block],
            "shared_embedding": shared,
            "parameters": _count(model),
        }
    )


def _blocks(stack: StackDescription) -> list[str]:
    norm = [] if stack.norm is None else [_BLOCK_NORM.format(stack.name)]
    return [stack.embedding.block, *(layer.block for layer in stack.layers), *norm]


def _encoder(encoder: object) -> StackDescription:
    match encoder:
        case ImageEncoder(stack=stack):
            return _stack("encoder", stack, "source", None, _image_embedding(encoder), _count(encoder))
        case RnnEncoder():
            layers = [_rnn_encoder_layer(i, layer) for i, layer in enumerate(encoder.layers)]
            return _rnn_stack("encoder", encoder.tokens, layers, "source", None, _count(encoder))
    assert isinstance(encoder, StackEncoder) and encoder.embedding is not None
    embedding = _embedding("encoder", encoder.embedding, encoder)
    return _stack("encoder", encoder, "source", None, embedding, _count(encoder))


def _decoder(decoder: object, rows: Axis, reads: StackName | None) -> StackDescription:
    if isinstance(decoder, RnnDecoder):
        layers = [_rnn_decoder_layer(decoder, i) for i in range(decoder.config.n_layers)]
        return _rnn_stack("decoder", decoder.tokens, layers, rows, reads, _count(decoder))
    assert isinstance(decoder, StackDecoder)
    return _stack("decoder", decoder, rows, reads, _embedding("decoder", decoder.embedding, decoder), _count(decoder))


def _stack(
    name: StackName,
    stack: StackEncoder | StackDecoder,
    rows: Axis,
    reads: StackName | None,
    embedding: EmbeddingDescription,
    parameters: int,
) -> StackDescription:
    layers = [_layer(name, i, layer) for i, layer in enumerate(stack.layers)]
    kinds = {"state-space": "ssm", "attention": "transformer"}
    first = layers[0].parts[0].kind if layers else "attention"
    kind = "image" if embedding.image else kinds.get(first, "feedforward")
    return StackDescription.model_validate(
        {
            "name": name,
            "kind": kind,
            "rows": rows,
            "reads": reads,
            "causal": name == "decoder",
            "d_model": embedding.d_model,
            "embedding": embedding,
            "layers": layers,
            "norm": norm_of(stack.norm),
            "parameters": parameters,
        }
    )


def _layer(stack: StackName, i: int, layer: nn.Module) -> LayerDescription:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    parts: list[Part] = []
    if layer.mixer is not None and layer.mixer_residual is not None:
        assert isinstance(layer.mixer, nn.Module)
        parts.append(_mixer(stack, layer.mixer, layer.mixer_residual))
    if isinstance(layer, DecoderLayer) and layer.cross is not None and layer.cross_residual is not None:
        parts.append(_attention("cross", "cross", layer.cross, layer.cross_residual))
    parts.append(_feed_forward(layer.feedforward, layer.feedforward_residual))
    return LayerDescription(block=f"{stack}.{i}", parts=parts, parameters=_count(layer))


def _around(residual: Residual, *modules: nn.Module) -> dict[str, object]:
    """What a part with a residual connection has."""
    place = "pre" if residual.pre else "post"
    n = sum(_count(module) for module in (residual, *modules))
    return {"norm": norm_of(residual.norm), "norm_place": place, "residual": True, "parameters": n}


def _mixer(stack: StackName, mixer: nn.Module, residual: Residual) -> Part:
    around = _around(residual, mixer)
    match mixer:
        case StateSpace() | BidirectionalStateSpace():
            space = mixer.left_to_right
            return StateSpacePart.model_validate(
                {
                    "name": "state-space",
                    **around,
                    "d_inner": space.skip.shape[0],
                    "d_state": space.d_state,
                    "width": space.width,
                    "bidirectional": isinstance(mixer, BidirectionalStateSpace),
                }
            )
        case Window():
            return WindowPart.model_validate({"name": "window", **around, "window": mixer.window})
    assert isinstance(mixer, SelfAttention | LinearAttention)
    return _attention("self", stack, mixer, residual)


def _attention(name: str, site: str, attention: MultiHeadAttention, residual: Residual) -> AttentionPart:
    return AttentionPart.model_validate(
        {
            "name": name,
            **_around(residual, attention),
            "site": site,
            "reads": "encoder" if site == "cross" else "self",
            "form": "linear" if isinstance(attention, LinearAttention) else "softmax",
            "causal": site == "decoder",
            "heads": attention.n_heads,
            "kv_heads": attention.n_kv_heads,
            "d_head": attention.widths[0],
            "d_value": attention.widths[1],
            "score": attention.score_name,
            "normalise": attention.normalise,
            "score_bias": attention.score_bias,
            "rotary": isinstance(attention, SelfAttention) and attention.positions == "rotary",
            "bias": attention.out.bias is not None,
        }
    )


def _feed_forward(module: nn.Module, residual: Residual) -> FeedForwardPart:
    assert isinstance(module, FeedForward | GatedFeedForward)
    gated = isinstance(module, GatedFeedForward)
    activation = "silu" if isinstance(module, GatedFeedForward) else activation_name(module.activation)
    return FeedForwardPart.model_validate(
        {
            "name": "feedforward",
            **_around(residual, module),
            "gated": gated,
            "activation": activation,
            "d_hidden": module.outer.in_features,
            "bias": module.outer.bias is not None,
        }
    )


def activation_name(module: nn.Module) -> str:
    return next(name for name, kind in ACTIVATIONS.items() if type(module) is kind)


def _rnn_stack(
    name: StackName,
    tokens: nn.Embedding,
    layers: list[LayerDescription],
    rows: Axis,
    reads: StackName | None,
    parameters: int,
) -> StackDescription:
    embedding = EmbeddingDescription(
        block=f"{name}.embedding",
        vocabulary=tokens.num_embeddings,
        d_model=tokens.embedding_dim,
        scale=1.0,
        positions="none",
        join="none",
        max_len=None,
        norm=None,
        image=None,
        parameters=_count(tokens),
    )
    return StackDescription(
        name=name,
        kind="rnn",
        rows=rows,
        reads=reads,
        causal=name == "decoder",
        d_model=tokens.embedding_dim,
        embedding=embedding,
        layers=layers,
        norm=None,
        parameters=parameters,
    )


def _recurrent(cell: str, d_state: int, bidirectional: bool, parameters: int) -> RecurrentPart:
    return RecurrentPart.model_validate(
        {
            "name": "recurrence",
            "norm": None,
            "norm_place": None,
            "residual": False,
            "parameters": parameters,
            "cell": cell,
            "d_state": d_state,
            "bidirectional": bidirectional,
        }
    )


def _rnn_encoder_layer(i: int, layer: nn.Module) -> LayerDescription:
    assert isinstance(layer, BidirectionalLayer | ForwardLayer)
    rnn, both = layer.left_to_right, isinstance(layer, BidirectionalLayer)
    part = _recurrent(rnn.cell, rnn.rnn.hidden_size, both, _count(layer))
    return LayerDescription(block=f"encoder.{i}", parts=[part], parameters=part.parameters)


def _rnn_decoder_layer(decoder: RnnDecoder, i: int) -> LayerDescription:
    """The context is computed before the first layer (context=input) or after the last one (context=output)."""
    weights = [p for name, p in decoder.rnn.rnn.named_parameters() if name.endswith(f"_l{i}")]
    parts: list[Part] = [
        _recurrent(decoder.config.cell, decoder.config.d_model, False, sum(p.numel() for p in weights))
    ]
    if decoder.attention is not None and i == (0 if decoder.join is not None else decoder.config.n_layers - 1):
        attention = _rnn_attention(decoder, decoder.attention)
        parts = [attention, *parts] if decoder.join is not None else [*parts, attention]
    return LayerDescription(block=f"decoder.{i}", parts=parts, parameters=sum(part.parameters for part in parts))


def _rnn_attention(decoder: RnnDecoder, attention: RnnAttention) -> AttentionPart:
    width = decoder.d_out if decoder.join is None else decoder.join.in_features
    d_memory = width - decoder.config.d_model
    modules = [module for module in (attention, decoder.join) if module is not None]
    return AttentionPart(
        name="cross",
        norm=None,
        norm_place=None,
        residual=False,
        parameters=sum(map(_count, modules)),
        site="cross",
        reads="encoder",
        form="recurrent",
        causal=False,
        heads=1,
        kv_heads=1,
        d_head=d_memory,
        d_value=d_memory,
        score=attention.score_name,
        normalise=attention.normalise,
        score_bias=attention.score_bias,
        rotary=False,
        local=decoder.config.local,
        bias=False,
    )


def _embedding(name: StackName, embedding: Embedding, stack: StackEncoder | StackDecoder) -> EmbeddingDescription:
    join = "none"
    positions = _mixer_positions(stack)
    if embedding.positions is not None:
        join = "concatenate" if isinstance(embedding.join, Concatenate) else "add"
        positions = "sinusoidal" if isinstance(embedding.positions, SinusoidalPositions) else "learned"
    return EmbeddingDescription.model_validate(
        {
            "block": f"{name}.embedding",
            "vocabulary": embedding.tokens.num_embeddings,
            "d_model": embedding.tokens.embedding_dim,
            "scale": embedding.scale,
            "positions": positions,
            "join": join,
            "max_len": stack.max_len,
            "norm": norm_of(embedding.norm),
            "image": None,
            "parameters": _count(embedding),
        }
    )


def _mixer_positions(stack: StackEncoder | StackDecoder) -> str:
    """Positions that attention itself knows: rotary, alibi or none"""
    mixers = (layer.mixer for layer in stack.layers if isinstance(layer, EncoderLayer | DecoderLayer))
    known = (mixer.positions for mixer in mixers if isinstance(mixer, SelfAttention))
    return next((name for name in known if name in ("rotary", "alibi")), "none")


def _image_embedding(encoder: ImageEncoder) -> EmbeddingDescription:
    side = encoder.size // encoder.regions
    stem = "patches" if isinstance(encoder.stem, nn.Conv2d) else "convolutions"
    image = {"size": encoder.size, "patch": side, "regions": encoder.regions, "stem": stem}
    return EmbeddingDescription(
        block="encoder.embedding",
        vocabulary=0,
        d_model=encoder.d_model,
        scale=1.0,
        positions="learned",
        join="add",
        max_len=None,
        norm=None,
        image=ImageDescription.model_validate(image),
        parameters=_count(encoder.stem) + encoder.positions.numel(),
    )


def norm_of(module: nn.Module | None) -> NormDescription | None:
    """Describe a norm; None for what is no norm."""
    if not isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return None
    eps = torch.finfo(module.weight.dtype).eps if module.eps is None else module.eps
    kind = "layer" if isinstance(module, nn.LayerNorm) else "rms"
    return NormDescription.model_validate({"kind": kind, "eps": eps, "parameters": _count(module)})


def _output(model: Model, rows: str) -> OutputDescription:
    tables = [_token_table(getattr(model, side)) for side in ("encoder", "decoder") if hasattr(model, side)]
    tied = any(table is not None and table.weight is model.output.weight for table in tables)
    readout = getattr(model, "readout", None)
    pooling, before = "none", [] if readout is None else [readout]
    if isinstance(model, EncoderOnly):
        before = [module for module in (model.transform, model.pooling) if module is not None]
        if model.predicts_label:
            pooling = "mean" if not isinstance(model.encoder, RnnEncoder) else "last-state"
            pooling = pooling if model.pooling is None else "attention"
    has_readout = isinstance(readout, nn.Linear)
    own = _count(model.output) - (model.output.weight.numel() if tied else 0)
    return OutputDescription.model_validate(
        {
            "predicts": "labels" if pooling != "none" else "tokens",
            "rows": rows,
            "pooling": pooling,
            "d_in": readout.in_features if isinstance(readout, nn.Linear) else model.output.in_features,
            "readout": has_readout,
            "transform": isinstance(model, EncoderOnly) and model.transform is not None,
            "size": model.output.out_features,
            "tied": tied,
            "bias": model.output.bias is not None,
            "parameters": own + sum(map(_count, before)),
        }
    )


def _token_table(stack: object) -> nn.Embedding | None:
    """The embedding table of an encoder or decoder; None if it reads images"""
    if isinstance(stack, RnnEncoder | RnnDecoder):
        return stack.tokens
    embedding = getattr(stack, "embedding", None)
    return embedding.tokens if isinstance(embedding, Embedding) else None


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
