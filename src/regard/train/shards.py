"""Weights divided among the ranks (torch's FSDP2): each rank keeps a part of every tensor and of Adam's state.

Outside of this file a divided tensor is used by three functions, which leave whole tensors as they are.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.errors import UserError
from regard.models import Model
from regard.models.weights import trained_weights
from regard.train.ranks import Ranks


def shard_model(model: Model, ranks: Ranks, half: bool) -> Model:
    """Return a copy of a model whose weights are divided among the ranks, and gathered layer by layer when needed.

    Decoder layers with cross-attention are gathered together, since the keys and values of the source are computed
    for all of them at once. With `half`, the model computes with bf16 copies.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    if ranks.store is None:
        raise UserError("train.shard needs several processes: torchrun --nproc-per-node N -m regard train …")
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        raise UserError("train.shard is for models without recurrent layers; leave it out")
    sharded = copy.deepcopy(model)
    device = next(model.parameters()).device
    options: Any = {"mesh": init_device_mesh(device.type, (ranks.size,))}
    if half:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in sharded.layers_to_compile():
        if getattr(layer, "cross", None) is None:
            fully_shard(layer, **options)
    fully_shard(sharded, **options)
    if hasattr(sharded, "forward_traced"):
        register_fsdp_forward_method(sharded, "forward_traced")
    for module in sharded.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # gradients are added, not averaged
            module.set_force_sum_reduction_for_comms(True)
    return sharded


def is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "device_mesh")


def local_part(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that this rank has, which shares its memory."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def part_of(value: Tensor, like: Any) -> Tensor:
    """Return the part of a whole value that this rank has of `like`."""
    if not is_sharded(like):
        return value
    from torch.distributed.tensor import distribute_tensor

    spread = distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
    return spread.to_local().clone()


def whole(part: Tensor, like: Any) -> Tensor:
    """Return the whole value on the first rank, from the parts of all ranks, and an empty one on the others."""
    if not is_sharded(like):
        return part
    from torch.distributed.tensor import DTensor

    mesh, placements = like.device_mesh, like.placements
    value = DTensor.from_local(part, mesh, placements, shape=like.shape, stride=like.stride()).full_tensor()
    return value.cpu() if dist.get_rank() == 0 else value.new_empty(0)


@torch.no_grad()
def gather_weights(sharded: Model, model: Model) -> None:
    """Copy the trained weights of a sharded model to a whole one, on the first rank."""
    weights = trained_weights(model)
    for name, parameter in trained_weights(sharded).items():
        value = whole(local_part(parameter), parameter)
        if value.numel():
            weights[name].copy_(value)


@torch.no_grad()
def spread_weights(model: Model, sharded: Model) -> None:
    """Copy the trained weights of a whole model to a sharded one."""
    weights = trained_weights(model)
    for name, parameter in trained_weights(sharded).items():
        local_part(parameter).copy_(part_of(weights[name], parameter))


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of all gradients, of which each rank may have parts."""
    norm = torch.nn.utils.get_total_norm([local_part(gradient) for gradient in gradients])
    if not any(map(is_sharded, gradients)):
        return norm
    square = norm.square()
    dist.all_reduce(square)
    return square.sqrt()
