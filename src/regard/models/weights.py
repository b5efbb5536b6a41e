"""Model weights as named tensors, as stored in bundles, checkpoints and averages."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import UserError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter once, under its first name (a tied matrix is one tensor)."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@torch.no_grad()
def load_matching(model: nn.Module, other: nn.Module, leave_out: Container[nn.Parameter] = ()) -> int:
    """Copy the parameters that have the same name and shape in `other`; return how many numbers were copied."""
    source, copied = weights_of(other), 0
    for name, parameter in model.named_parameters():
        if name in source and source[name].shape == parameter.shape and parameter not in leave_out:
            parameter.copy_(source[name])
            copied += parameter.numel()
    return copied


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters that are trained."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad}


def frozen_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters that are not trained."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if not parameter.requires_grad}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the model; names and shapes must match exactly. `where` names their origin in errors."""
    replace_weights(weights_of(model), tensors, where)


@torch.no_grad()
def replace_weights(weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the weights of the same names; names and shapes must match exactly."""
    _check_shapes(weights, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, where)
    for name, weight in weights.items():
        if not tensors[name].is_floating_point():
            raise UserError(f"{where}: tensor '{name}' has type {tensors[name].dtype}, which is not that of a weight")
        weight.copy_(tensors[name])


def check_shapes(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raise a UserError unless `shapes` are the names and shapes of the model's parameters."""
    _check_shapes(weights_of(model), shapes, where)


def _check_shapes(weights: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    for name in sorted(weights.keys() ^ shapes.keys()):
        raise UserError(f"{where}: tensor '{name}' is {'missing' if name in weights else 'not part of this model'}")
    for name, weight in weights.items():
        if tuple(weight.shape) != shapes[name]:
            expected = tuple(weight.shape)
            raise UserError(f"{where}: tensor '{name}' has shape {shapes[name]}, but the config says {expected}")


class SkipInitialisation(TorchFunctionMode):
    """While it is active, new parameters are not initialised, because they will be loaded.

    This saves most of the time to build a model, and their memory is not used before they are loaded.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.uniform_, Tensor.normal_) or getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
