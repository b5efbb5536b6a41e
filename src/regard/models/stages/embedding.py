"""Stages of embeddings: token vectors, positions, their sum; patches of an image."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.models.image_encoder import ImageEncoder
from regard.models.stages.calls import ModuleCalls
from regard.models.stages.stage import BlockRecord
from regard.nn.embedding import Concatenate, Embedding


def lookup_stage(record: BlockRecord, ids: Tensor, tokens: nn.Embedding) -> str:
    """Add the vectors of ids [T]. They are looked up here, because encoder and decoder may share one table."""
    name = record.given("ids", ids, record.rows)
    table = {"table": (tokens.weight, ("vocabulary", "width"))}
    return record.stage("tokens", "lookup", (name,), tokens.weight[ids], weights=table)


def embedding_stages(record: BlockRecord, calls: ModuleCalls, embedding: Embedding) -> str:
    x = lookup_stage(record, calls.input(embedding), embedding.tokens)
    output = calls.output(embedding)
    if embedding.positions is not None:
        scaled, positions = calls.input(embedding.join), calls.last(embedding.join).args[1]
        if embedding.scale != 1.0:
            x = record.stage("scaled", "scale", (x,), scaled, factor=embedding.scale)
        p = record.given("positions", positions.expand(1, *scaled.shape)[0], record.rows, "width")
        joined = calls.output(embedding.join)
        if isinstance(embedding.join, Concatenate):
            both = calls.input(embedding.join.mix)
            pair = record.stage("pair", "concatenate", (x, p), both)
            x = record.linear("sum", pair, joined, embedding.join.mix.weight, None)
        else:
            x = record.stage("sum", "add", (x, p), joined)
    elif embedding.scale != 1.0:
        scaled = output if embedding.norm is None else calls.input(embedding.norm)
        x = record.stage("scaled", "scale", (x,), scaled, factor=embedding.scale)
    return x if embedding.norm is None else record.norm("norm", x, output, embedding.norm)


def image_stages(record: BlockRecord, calls: ModuleCalls, encoder: ImageEncoder) -> str:
    pixels = record.given("pixels", calls.input(encoder), "colour", "row", "column")
    vectors = calls.output(encoder.stem)
    if isinstance(encoder.stem, nn.Conv2d):
        side = encoder.stem.stride[0]
        patches = torch.nn.functional.unfold(calls.input(encoder)[None], side, stride=side)[0].T
        x = record.stage("patches", "patches", (pixels,), patches, side=side)
        weight, bias = encoder.stem.weight.flatten(1), encoder.stem.bias
        x = record.linear("regions", x, vectors.flatten(1).T, weight, bias)
    else:
        x = _convolutions(record, calls, encoder.stem, pixels)
        x = record.stage("regions", "regions", (x,), vectors.flatten(1).T)
    p = record.given("positions", encoder.positions, record.rows, "width")
    return record.stage("sum", "add", (x, p), calls.output(encoder.dropout))


def _convolutions(record: BlockRecord, calls: ModuleCalls, stem: nn.Module, x: str) -> str:
    axes = ("channel", "row", "column")
    for i, module in enumerate(stem.children()):
        if isinstance(module, nn.Conv2d):
            weights: dict[str, tuple[Tensor, tuple[str, ...]] | None] = {
                "weight": (module.weight, ("channel", "channel", "row", "column")),
                "bias": None if module.bias is None else (module.bias, ("channel",)),
            }
            settings: dict[str, Any] = {"stride": module.stride[0], "padding": int(module.padding[0])}
            output = calls.output(module)
            x = record.stage(f"convolution.{i}", "convolution-2d", (x,), output, axes, weights, **settings)
        else:
            x = record.stage(f"relu.{i}", "activation", (x,), calls.output(module), axes, activation="relu")
    return x
