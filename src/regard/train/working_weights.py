"""The weights that a GPU computes with: copies of a model's float32 weights, matrices in bf16."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WorkingWeights:
    """Takes the place of a model's parameters in the forward and the backward pass.

    Casting the weights once per update is cheaper than autocast, which casts them and their gradients one by one.
    The parameters get their gradients in float32, always in the same memory, as CUDA graphs require.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.parameters = list(model.parameters())
        self._copies: dict[nn.Parameter, nn.Parameter] = {}
        self._places: list[tuple[nn.Module, str]] = []
        for module in model.modules():
            if not isinstance(module, nn.RNNBase):  # torch's recurrent layers keep lists of their weights
                self._add(module, dtype if isinstance(module, nn.Linear | nn.Embedding) else torch.float32)
        for parameter in self.parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        self._direct = [parameter.grad for parameter in self.parameters if parameter not in self._copies]

    def _add(self, module: nn.Module, dtype: torch.dtype) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            self._places.append((module, name))
            if parameter not in self._copies:  # a tied matrix has two places
                # A copy of the same type shares the parameter's memory.
                self._copies[parameter] = nn.Parameter(parameter.detach().to(dtype), parameter.requires_grad)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the model compute with the copies in the block; afterwards the parameters have their gradients."""
        _zero(self._direct)
        self._cast()
        originals = [module._parameters[name] for module, name in self._places]
        try:
            for (module, name), parameter in zip(self._places, originals, strict=True):
                assert parameter is not None
                module._parameters[name] = self._copies[parameter]
            yield
        finally:
            for (module, name), parameter in zip(self._places, originals, strict=True):
                module._parameters[name] = parameter
        self._collect()

    @torch.no_grad()
    def add_gradients(self, sums: list[Tensor] | None) -> list[Tensor]:
        """Add the parameters' gradients to earlier ones."""
        gradients = self._gradients()
        if sums is None:
            return [gradient.clone() for gradient in gradients]
        torch._foreach_add_(sums, gradients)
        return sums

    def set_gradients(self, sums: list[Tensor]) -> None:
        torch._foreach_copy_(self._gradients(), sums)

    def zero_gradients(self) -> None:
        _zero(self._gradients())

    def drop_gradients(self) -> None:
        """Drop what an update that failed left behind."""
        for copy in self._copies.values():
            copy.grad = None

    @torch.no_grad()
    def _cast(self) -> None:
        _copy([(copy.detach(), p.detach()) for p, copy in self._copies.items() if copy.dtype != p.dtype])

    @torch.no_grad()
    def _collect(self) -> None:
        """Move the gradients from the copies to the parameters."""
        _zero([p.grad for p, copy in self._copies.items() if copy.grad is None])
        for dtype in {copy.dtype for copy in self._copies.values()}:
            pairs = [(p.grad, c.grad) for p, c in self._copies.items() if c.dtype == dtype]
            _copy([(to, source) for to, source in pairs if to is not None and source is not None])
        self.drop_gradients()

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]


def _zero(gradients: Sequence[Tensor | None]) -> None:
    present = [gradient for gradient in gradients if gradient is not None]
    if present:
        torch._foreach_zero_(present)


def _copy(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Copy the second of each pair to the first, in few kernels."""
    if pairs:
        torch._foreach_copy_([to for to, _ in pairs], [source for _, source in pairs])
