"""Muon: a weight matrix is changed by its averaged gradient with all singular values set to about 1.

Directions that are rare in the gradients then count as much as frequent ones (Jordan et al. 2024). The factor that lets
it use Adam's learning rate is that of Liu et al. 2025.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_MOMENTUM = 0.95
_ADAM_SIZE = 0.2  # typical size of the numbers in an update of Adam, relative to the learning rate


def orthogonalise(g: Tensor) -> Tensor:
    """Return about U Vᵀ for matrices g = U Σ Vᵀ [..., D, E], by the iteration X ← aX + (bA + cA²)X with A = XXᵀ"""
    a, b, c = _COEFFICIENTS
    x = g if g.shape[-2] <= g.shape[-1] else g.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if g.shape[-2] <= g.shape[-1] else x.mT


def embedding_tables(model: nn.Module) -> set[nn.Parameter]:
    """Return the tables of embeddings; an output matrix that is tied to one is the same parameter."""
    return {p for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices that Muon trains: those of linear and recurrent layers, except the output layer.

    Adapters are not among them: their matrices are narrow, and Adam trains them.
    """
    tables = embedding_tables(model)
    layers = [module for module in model.modules() if isinstance(module, nn.Linear | nn.RNNBase)]
    layers = [layer for layer in layers if layer is not getattr(model, "output", None)]
    weights = dict.fromkeys(p for layer in layers for p in layer.parameters(recurse=False) if p.dim() == 2)
    return [p for p in weights if p not in tables and p.requires_grad]


class Muon:
    """The averaged gradients of matrices, and the update that follows from them."""

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float, half: bool = False) -> None:
        """With `half` matrices are orthogonalised in bf16, on a GPU always."""
        self.half = half
        self.momentum = {parameter: torch.zeros_like(parameter) for parameter in parameters}
        self.weight_decay = weight_decay

    def step(self, lr: float | Tensor, scale: Tensor | None, bad: Tensor) -> None:
        """Update the matrices; the gradients are divided by `scale`, and ignored if they are bad."""
        shapes = dict.fromkeys(parameter.shape for parameter in self.momentum)
        for shape in shapes:  # matrices of one shape are processed together
            group = [p for p in self.momentum if p.shape == shape and p.grad is not None]
            if group:
                self._update(group, lr, scale, bad)

    def _update(self, group: list[nn.Parameter], lr: float | Tensor, scale: Tensor | None, bad: Tensor) -> None:
        g = torch.stack([p.grad for p in group if p.grad is not None])
        g = g if scale is None else g / scale
        before = torch.stack([self.momentum[p] for p in group])
        mean = torch.where(bad, before, before.lerp(g, 1 - _MOMENTUM))
        direction = g.lerp(mean, _MOMENTUM)  # Nesterov's momentum
        update = orthogonalise(direction.bfloat16() if g.is_cuda or self.half else direction).float()
        update = torch.where(bad, 0.0, update * (_ADAM_SIZE * max(g.shape[-2:]) ** 0.5) * lr)
        decay = self.weight_decay * lr * ~bad
        for i, p in enumerate(group):
            self.momentum[p].copy_(mean[i])
            p.sub_(update[i] + decay * p)
