"""What the modules of a model receive and return while it processes one input."""

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

ModelT = TypeVar("ModelT", bound=nn.Module)


class Call(NamedTuple):
    args: tuple[Any, ...]
    output: Any


def weight_sharing_copy(model: ModelT) -> ModelT:
    """Copy the modules of a model but not its weights, so that hooks on the copy concern nobody else."""
    tensors = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


_COPIES: "WeakKeyDictionary[nn.Module, list[nn.Module]]" = WeakKeyDictionary()
"""Copies that nobody uses at the moment"""


@contextmanager
def borrowed_copy(model: ModelT) -> Iterator[ModelT]:
    """Lend a copy of a model that shares its weights to one caller, who may put hooks on it and must remove them."""
    copies = _COPIES.setdefault(model, [])
    copied = copies.pop() if copies else None
    if copied is None or list(map(id, copied.parameters())) != list(map(id, model.parameters())):
        copied = weight_sharing_copy(model).eval()
    try:
        yield copied  # type: ignore[misc]
    finally:
        if not any(module._forward_hooks for module in copied.modules()):
            copies.append(copied)


class ModuleCalls:
    """Records the calls of some modules and of all modules in them. They must belong to a copy made for this."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._calls: dict[nn.Module, list[Call]] = {}
        parts = {part for parent in modules for part in parent.modules()}
        self._hooks = [module.register_forward_hook(self._hook) for module in parts]

    def stop(self) -> None:
        """Record no further calls."""
        for hook in self._hooks:
            hook.remove()

    def _hook(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._calls.setdefault(module, []).append(Call(args, output))

    def all(self, module: nn.Module) -> list[Call]:
        return self._calls[module]

    def has(self, module: nn.Module) -> bool:
        return module in self._calls

    def last(self, module: nn.Module) -> Call:
        return self._calls[module][-1]

    def input(self, module: nn.Module, argument: int = 0) -> Tensor:
        """The argument for the one input [T, …]; calls for consecutive positions are joined."""
        return _joined([call.args[argument] for call in self._calls[module]])

    def output(self, module: nn.Module) -> Tensor:
        return _joined([call.output for call in self._calls[module]])


def _joined(parts: list[Tensor]) -> Tensor:
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))[0]
