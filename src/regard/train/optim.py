"""The Adam optimizer, learning rate schedules, and a moving average of the weights (EMA)."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config
from regard.errors import UserError
from regard.train.cuda_graphs import GraphRunner

Decay = Annotated[float, Field(ge=0.0, lt=1.0)]

_NOT_DECAYED = {"positions", "a_log"}
"""Names of position tables and of the state-space transition, which weight decay leaves alone"""


_SLOTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam keeps of each parameter"""


class OptimConfig(Config):
    schedule: Literal["inverse-sqrt", "cosine", "constant"] = "inverse-sqrt"
    """How the learning rate falls after a linear warm-up: with 1/√step, with a cosine to 0 at the last step, or not."""
    lr: float | None = Field(None, gt=0.0)
    """Peak learning rate. Unset, it is (d_model · warmup)^−½, which with inverse-sqrt is the formula of the lecture."""
    warmup: int = Field(4000, ge=1)
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0.0)
    weight_decay: float = Field(0.0, ge=0.0)
    """Decoupled weight decay of weight matrices; embeddings, norms and biases are not decayed."""
    clip: float = Field(1.0, ge=0.0)
    """Maximum norm of the gradient; 0: no clipping."""
    ema: Decay = 0.0
    """Decay of a moving average of the weights, which is then what is validated and saved; 0: off."""


def learning_rate(config: OptimConfig, step: int, total: int, d_model: int) -> float:
    """Return the learning rate of update `step`, counted from 1, of `total`.

    By default d_model^−½ · min(step^−½, step · warmup^−3/2), as in the lecture.
    """
    peak = config.lr if config.lr is not None else (d_model * config.warmup) ** -0.5
    if step < config.warmup:
        return peak * step / config.warmup
    match config.schedule:
        case "inverse-sqrt":
            return peak * math.sqrt(config.warmup / step)
        case "cosine":
            done = (step - config.warmup) / max(1, total - config.warmup)
            return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        case "constant":
            return peak


class Optimizer:
    """Adam with gradient clipping that skips the update when the gradient is not finite.

    The check is made on the device (`found_inf` of the fused kernel), so that the host never waits for it.
    """

    def __init__(self, model: nn.Module, config: OptimConfig, recorded: bool = False) -> None:
        """With `recorded` the update is captured as a CUDA graph."""
        self.names, self.parameters = zip(*model.named_parameters(), strict=True)
        self.clip = config.clip
        self.adam = torch.optim.Adam(
            _parameter_groups(model, config.weight_decay),
            lr=0.0,
            betas=config.betas,
            eps=config.eps,
            decoupled_weight_decay=True,
            fused=True,
            capturable=recorded,
        )
        device = self.parameters[0].device
        self.skipped = torch.zeros(2, dtype=torch.int64, device=device)
        """Updates skipped because the gradient was not finite: in total, and in a row up to now"""
        self._graph = GraphRunner(self._update) if recorded else None

    def step(self, lr: float) -> Tensor:
        """Update the weights and return the gradient's norm before clipping; the gradients stay as they are."""
        if self._graph is None:
            return self._update(lr)
        norm = self._graph(torch.full((), lr, device=self.skipped.device))
        # A replayed graph does not count as a change of the weights, but copies of them must be renewed.
        torch.autograd.graph.increment_version(self.parameters)
        return norm

    def _update(self, lr: float | Tensor) -> Tensor:
        for group in self.adam.param_groups:
            group["lr"] = lr
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        bad = ~norm.isfinite()
        self.adam.found_inf = bad.float()  # type: ignore[attr-defined]
        # The kernel divides the gradient by this number, which saves a pass over it.
        self.adam.grad_scale = (norm / self.clip).clamp(min=1.0).float() if self.clip else None  # type: ignore[attr-defined]
        self.adam.step()
        self.skipped.copy_(torch.stack([self.skipped[0] + bad, (self.skipped[1] + 1) * bad]))
        return norm

    def drop_incomplete(self) -> None:
        """Drop the state of parameters for which Adam's first step had not enough memory."""
        for parameter, state in list(self.adam.state.items()):
            if not state.keys() >= set(_SLOTS):
                del self.adam.state[parameter]

    def state(self) -> dict[str, Tensor]:
        """Return Adam's state under the parameters' names; before the first update there is none."""
        tensors = {"skipped": self.skipped}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            for slot, value in self.adam.state.get(parameter, {}).items():
                tensors[f"{slot}.{name}"] = value
        return tensors

    def restore(self, tensors: dict[str, Tensor], where: str) -> None:
        """Load what `state` returned; `where` is named in errors."""
        expected = {"skipped": self.skipped.shape}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if f"step.{name}" in tensors:  # a parameter that never had a gradient has no state
                expected |= {f"{slot}.{name}": _slot_shape(slot, parameter) for slot in _SLOTS}
        for name in sorted(expected.keys() ^ tensors.keys()):
            raise UserError(f"{where}: Adam's '{name}' is {'missing' if name in expected else 'not of this model'}")
        for name, shape in expected.items():
            if tensors[name].shape != shape:
                raise UserError(f"{where}: Adam's '{name}' has shape {tuple(tensors[name].shape)}, not {tuple(shape)}")
        if self._graph:
            self._graph.forget()  # it has the addresses of the state before
        self.skipped.copy_(tensors["skipped"])
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if f"step.{name}" in tensors:
                state = {slot: tensors[f"{slot}.{name}"].to(parameter.device, torch.float32) for slot in _SLOTS}
                self.adam.state[parameter] = state


def _slot_shape(slot: str, parameter: Tensor) -> torch.Size:
    return torch.Size() if slot == "step" else parameter.shape


def _parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Divide the parameters into those that are decayed, which are weight matrices, and the others.

    Not decayed are vectors (norms, biases), embeddings of tokens and of positions, and `a_log` of state-space layers.
    An output matrix that is tied to an embedding is the same parameter and counts as an embedding.
    """
    embeddings = {p for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.dim() >= 2 and parameter not in embeddings and not _NOT_DECAYED & set(name.split("."))
        (decayed if is_matrix and weight_decay else others).append(parameter)
    groups: list[dict[str, object]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class MovingAverage:
    """Exponential moving average: ema ← d · ema + (1 − d) · weights after each update.

    In the first steps d is smaller, so that the initial weights are soon forgotten.
    """

    def __init__(self, parameters: Iterable[Tensor], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self.average = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], names: Sequence[str], where: str) -> None:
        """Load the averages of the parameters `names`; `where` is named in errors."""
        for name, average in zip(names, self.average, strict=True):
            if name not in tensors or tensors[name].shape != average.shape:
                raise UserError(f"{where}: the moving average of '{name}' is missing or has another shape")
            average.copy_(tensors[name])

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights and their average; a second call restores them."""
        for parameter, average in zip(self.parameters, self.average, strict=True):
            weights = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(weights)
