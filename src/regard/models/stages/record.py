"""Records the stages of one block of a model on one input."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.models.image_encoder import ImageEncoder
from regard.models.intervention import Intervention
from regard.models.layers import DecoderLayer, EncoderLayer
from regard.models.rnn import RnnDecoder, RnnEncoder
from regard.models.stack import StackDecoder, StackEncoder
from regard.models.stages.calls import ModuleCalls, borrowed_copy
from regard.models.stages.embedding import embedding_stages, image_stages, lookup_stage
from regard.models.stages.layer import layer_stages
from regard.models.stages.output import output_stages
from regard.models.stages.rnn import decoder_layer_stages, encoder_layer_stages
from regard.models.stages.stage import BlockRecord

OUTPUT = "output"


@dataclass(frozen=True)
class BlockName:
    """encoder.embedding, decoder.2, encoder.norm or output"""

    stack: str
    place: str
    """embedding, norm, or the number of a layer"""

    @classmethod
    def parse(cls, name: str) -> "BlockName":
        stack, _, place = name.partition(".")
        if name != OUTPUT and not (
            stack in ("encoder", "decoder") and (place in ("embedding", "norm") or place.isdigit())
        ):
            raise UserError("a block is encoder or decoder with .embedding, .norm or a layer's number, or output")
        return cls(stack, place)


@torch.inference_mode()
def record_block(model: Model, batch: Batch, block: str, intervention: Intervention | None = None) -> BlockRecord:
    """Record all stages of a block while the model processes a batch of one, its target being forced."""
    name = BlockName.parse(block)
    with borrowed_copy(model) as copied:
        record = BlockRecord(block, _rows(copied, batch, name))
        if block == OUTPUT:
            calls = ModuleCalls([copied])
            copied(batch, intervention)
            calls.stop()
            output_stages(record, calls, copied)
            return record
        stack = getattr(copied, name.stack, None)
        if stack is None:
            raise UserError(f"this model has no {name.stack}")
        calls = ModuleCalls(_modules(stack, name))
        copied.trace_attention(batch, intervention)
        calls.stop()
        _add_stages(record, calls, stack, name)
        return record


def _rows(model: Model, batch: Batch, name: BlockName) -> str:
    """What the positions of a block are."""
    if isinstance(model, EncoderOnly):
        return "text" if name.stack == OUTPUT and model.predicts_label else "source"
    if name.stack == "encoder":
        return "source"
    concatenated = not hasattr(model, "encoder") and batch.src.shape[1] > 0
    return "sequence" if concatenated and name.stack != OUTPUT else "read"


def _modules(stack: nn.Module, name: BlockName) -> list[nn.Module]:
    """The modules whose calls the stages of a block are made from"""
    if isinstance(stack, RnnDecoder):
        return [stack]
    if isinstance(stack, ImageEncoder) and name.place == "embedding":
        return [stack]
    inner = stack.stack if isinstance(stack, ImageEncoder) else stack
    assert isinstance(inner, StackEncoder | StackDecoder | RnnEncoder)
    if name.place == "embedding":
        return [inner if isinstance(inner, RnnEncoder) else cast(nn.Module, inner.embedding)]
    if name.place == "norm":
        if isinstance(inner, RnnEncoder) or isinstance(inner.norm, nn.Identity):
            raise UserError(f"the {name.stack} has no norm after its last layer")
        return [inner.norm]
    return [inner.layers[_layer(name, len(inner.layers))]]


def _layer(name: BlockName, n_layers: int) -> int:
    if (layer := int(name.place)) >= n_layers:
        raise UserError(f"there is no layer {layer}; the {name.stack} has 0 to {n_layers - 1}")
    return layer


def _add_stages(record: BlockRecord, calls: ModuleCalls, stack: nn.Module, name: BlockName) -> None:
    match stack, name.place:
        case ImageEncoder(), "embedding":
            image_stages(record, calls, stack)
        case RnnEncoder() | RnnDecoder(), "embedding":
            lookup_stage(record, calls.input(stack), stack.tokens)
        case RnnDecoder(), "norm":
            raise UserError("the decoder has no norm after its last layer")
        case RnnDecoder(), _:
            decoder_layer_stages(record, calls, stack, _layer(name, stack.config.n_layers))
        case RnnEncoder(), _:
            encoder_layer_stages(record, calls, stack.layers[int(name.place)])
        case _:
            inner = stack.stack if isinstance(stack, ImageEncoder) else stack
            assert isinstance(inner, StackEncoder | StackDecoder)
            if name.place == "embedding":
                assert inner.embedding is not None
                embedding_stages(record, calls, inner.embedding)
            elif name.place == "norm":
                x = record.given("input", calls.input(inner.norm), record.rows, "width")
                record.norm("norm", x, calls.output(inner.norm), inner.norm)
            else:
                layer = inner.layers[int(name.place)]
                assert isinstance(layer, EncoderLayer | DecoderLayer)
                layer_stages(record, calls, layer)
