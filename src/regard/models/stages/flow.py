"""The flow through a model in lengths: of the vectors after each part, of what parts and heads add to them."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.models import Model
from regard.models.intervention import Intervention
from regard.models.record import KINDS
from regard.models.rnn import RnnDecoder, RnnEncoder
from regard.models.stages.calls import ModuleCalls, borrowed_copy
from regard.models.stages.residual_stream import inner_stack, residual_stream
from regard.nn.attention import MultiHeadAttention

STACKS = ("encoder", "decoder")


@dataclass(frozen=True)
class StackFlow:
    """Lengths of the vectors of one stack."""

    points: tuple[tuple[str, str], ...]
    """(block, part) after which the vectors are taken; the first is the embedding, with an empty part"""
    norms: Tensor
    """[points, T]: length of each position's vector"""
    added: Tensor
    """[points − 1, T]: length of what each part adds; without residual connections, of what it returns"""


@dataclass(frozen=True)
class Flow:
    stacks: dict[str, StackFlow]
    heads: dict[str, Tensor]
    """[layers, heads, T] for each kind of attention: length of what each head adds, after W_O"""


@torch.inference_mode()
def record_flow(model: Model, batch: Batch, intervention: Intervention | None = None) -> Flow:
    """Record the flow while the model processes a batch of one, its target being forced."""
    with borrowed_copy(model) as copied:
        calls = ModuleCalls([copied])
        copied(batch, intervention)
        calls.stop()
        stacks = {name: _stack_flow(calls, name, getattr(copied, name)) for name in STACKS if hasattr(copied, name)}
        heads = {}
        for kind in KINDS:
            modules = [m for m in copied.attention_modules(kind) if isinstance(m, MultiHeadAttention)]
            if modules:
                heads[kind] = torch.stack([_head_norms(calls, module) for module in modules])
        return Flow(stacks, heads)


def _stack_flow(calls: ModuleCalls, name: str, stack: nn.Module) -> StackFlow:
    inner = inner_stack(stack)
    if inner is None:
        return _recurrent_flow(calls, name, stack)
    points = list(residual_stream(calls, name, inner))
    norms = torch.stack([point.after[0].norm(dim=-1) for point in points])
    added = [point.added[0].norm(dim=-1) for point in points if point.added is not None]
    names = tuple((point.block, point.part) for point in points)
    return StackFlow(names, norms, torch.stack(added) if added else norms[:0])


def _recurrent_flow(calls: ModuleCalls, name: str, stack: nn.Module) -> StackFlow:
    """The embedding and the states of each layer; of a decoder, those of the last layer."""
    assert isinstance(stack, RnnEncoder | RnnDecoder)
    vectors = [stack.tokens.weight[calls.input(stack)]]
    if isinstance(stack, RnnEncoder):
        vectors += [calls.output(layer) for layer in stack.layers]
        layers = range(len(stack.layers))
    else:
        vectors.append(torch.cat([call.output[0] for call in calls.all(stack.rnn)], dim=1)[0])
        layers = range(stack.config.n_layers - 1, stack.config.n_layers)
    norms = torch.stack([vector.norm(dim=-1) for vector in vectors])
    points = ((f"{name}.embedding", ""), *((f"{name}.{layer}", "recurrence") for layer in layers))
    return StackFlow(points, norms, norms[1:])


def _head_norms(calls: ModuleCalls, attention: MultiHeadAttention) -> Tensor:
    """[H, T]: ‖W_O z‖ for the output z of each head"""
    outputs = calls.input(attention.out).unflatten(-1, (attention.n_heads, -1))  # [T, H, V]
    matrix = attention.out.matrix.unflatten(-1, (attention.n_heads, -1))  # [D, H, V]
    return torch.einsum("thv,dhv->htd", outputs, matrix).norm(dim=-1)
