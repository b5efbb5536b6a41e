"""A model's weights as named tensors: what bundles, checkpoints and averages hold."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.errors import UserError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, under its first name (a tied matrix is one tensor)."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@torch.no_grad()
def load_matching(model: nn.Module, other: nn.Module, leave_out: tuple[str, ...] = ()) -> int:
    """Copy every parameter that the other model has under the same name and shape → how many numbers that were"""
    given, copied = weights_of(other), 0
    for name, parameter in model.named_parameters():
        if name in given and given[name].shape == parameter.shape and not name.startswith(leave_out):
            parameter.copy_(given[name])
            copied += parameter.numel()
    if not copied:
        raise UserError("--init: none of that model's weights fits this one; give both the same model options")
    return copied


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    own = dict(model.named_parameters())
    for name in sorted(own.keys() ^ tensors.keys()):
        raise UserError(f"{where}: tensor '{name}' is {'missing' if name in own else 'not of this model'}")
    for name, parameter in own.items():
        if parameter.shape != tensors[name].shape:
            wanted, found = tuple(parameter.shape), tuple(tensors[name].shape)
            raise UserError(f"{where}: tensor '{name}' has shape {found}, the config says {wanted}")
        parameter.copy_(tensors[name])
