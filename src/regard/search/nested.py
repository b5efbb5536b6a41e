"""Nested values: tuples and dataclasses whose leaves are tensors, such as the state of a search."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

V = TypeVar("V")


def map_tensors(function: Callable[..., Tensor], value: V, *others: V) -> V:
    """Apply a function to each tensor of a value, together with the tensors at the same place in the other values."""
    mapped: V = _map(function, value, *others)
    return mapped


def _map(function: Callable[..., Tensor], value: Any, *others: Any) -> Any:
    if isinstance(value, Tensor):
        return function(value, *others)
    if isinstance(value, tuple):
        parts = [_map(function, *each) for each in zip(value, *others, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return replace(value, **{name: _map(function, *(getattr(v, name) for v in (value, *others))) for name in names})
    return value


def list_tensors(value: object) -> list[Tensor]:
    """Return all tensors of a value, always in the same order."""
    tensors: list[Tensor] = []

    def add(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(add, value)
    return tensors


def copy_into(buffers: V, value: V) -> None:
    """Copy every tensor of a value into the tensor at the same place in `buffers`, unless it is the same."""

    def copy(buffer: Tensor, tensor: Tensor) -> Tensor:
        return buffer if buffer is tensor else buffer.copy_(tensor)

    map_tensors(copy, buffers, value)


def take_sentences(value: V, sentences: Tensor, n: int) -> V:
    """Keep some of n sentences; the first dimension of each tensor is n, or n times a number of hypotheses."""
    return map_tensors(lambda tensor: tensor.unflatten(0, (n, -1))[sentences].flatten(0, 1), value)


def put_sentences(value: V, sentences: Tensor, n: int, new: V) -> V:
    """Replace some of n sentences by new ones, in place."""

    def put(tensor: Tensor, other: Tensor) -> Tensor:
        tensor.unflatten(0, (n, -1))[sentences] = other.unflatten(0, (len(sentences), -1)).to(tensor.dtype)
        return tensor

    return map_tensors(put, value, new)
