"""Whether fused kernels are used; training on a GPU turns them on for the forward pass of each batch."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from itertools import count

import torch
from torch import Tensor


class FusedKernels:
    """What the kernels of one forward pass share: the seed of dropout, and a number for each place that drops."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._places = count()

    @cached_property
    def seed(self) -> Tensor:
        return torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32, device=self.device)

    def next_place(self) -> int:
        return next(self._places)


_ACTIVE: ContextVar[FusedKernels | None] = ContextVar("fused kernels", default=None)


@contextmanager
def use_fused_kernels(device: torch.device) -> Iterator[None]:
    """Let modules use fused kernels in the block."""
    token = _ACTIVE.set(FusedKernels(device))
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def fused_kernels() -> FusedKernels | None:
    """Return the state of the kernels if they are on and torch.compile is not tracing."""
    return None if torch.compiler.is_compiling() else _ACTIVE.get()


@cache
def triton_is_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def is_half(*tensors: Tensor) -> bool:
    return all(tensor.dtype in (torch.bfloat16, torch.float16) for tensor in tensors)
