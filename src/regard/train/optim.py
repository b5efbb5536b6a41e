"""Adam, its learning rate, and weights that follow slowly (EMA)."""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config

Decay = Annotated[float, Field(ge=0.0, lt=1.0)]


class OptimConfig(Config):
    schedule: Literal["inverse-sqrt", "cosine", "constant"] = "inverse-sqrt"
    """After a linear warm-up: with 1/√step, with a cosine to zero at the last step, or not at all."""
    lr: float | None = Field(None, gt=0.0)
    """The peak. Unset, it is (d_model · warmup)^−½, which with inverse-sqrt is the lecture's formula."""
    warmup: int = Field(4000, ge=1)
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0.0)
    weight_decay: float = Field(0.0, ge=0.0)
    clip: float = Field(1.0, ge=0.0)
    """Bound of the gradient's norm; 0: none."""
    ema: Decay = 0.0
    """Decay of a moving average of the weights, which is then what is validated and kept; 0: off."""


def learning_rate(config: OptimConfig, step: int, total: int, d_model: int) -> float:
    """lr of update `step` (from 1).  Lecture: d_model^−½ · min(step^−½, step · warmup^−3/2)"""
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
    """Adam with clipping that leaves the weights alone when the gradient is not finite.

    The decision is taken on the device (`found_inf` of the fused kernel), so that no step waits for the host.
    """

    def __init__(self, model: nn.Module, config: OptimConfig) -> None:
        self.names, self.parameters = zip(*model.named_parameters(), strict=True)
        self.clip = config.clip
        self.adam = torch.optim.Adam(
            self.parameters,
            lr=0.0,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
            decoupled_weight_decay=True,
            fused=True,
        )
        device = self.parameters[0].device
        self.skipped = torch.zeros(2, dtype=torch.int64, device=device)
        """Updates left out because of a gradient that is not finite: in all, and in a row until now"""

    def step(self, lr: float) -> Tensor:
        """Update the weights from their gradients, which are consumed → the gradient's norm before clipping"""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        bad = ~norm.isfinite()
        if self.clip:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip, norm)
        self.adam.found_inf = bad.float()  # type: ignore[attr-defined]
        self.adam.grad_scale = None  # type: ignore[attr-defined]
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()
        self.adam.zero_grad(set_to_none=False)  # in place: a recorded update sums into the same memory again
        self.skipped = torch.stack([self.skipped[0] + bad, (self.skipped[1] + 1) * bad])
        return norm

    def state(self) -> dict[str, Tensor]:
        """Adam's memory under the parameters' names; empty before the first step."""
        tensors = {"skipped": self.skipped}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            for slot, value in self.adam.state.get(parameter, {}).items():
                tensors[f"{slot}.{name}"] = value
        return tensors

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.skipped = tensors["skipped"].to(self.skipped.device)
        for name, parameter in zip(self.names, self.parameters, strict=True):
            slots = ("step", "exp_avg", "exp_avg_sq")
            held = {slot: tensors[f"{slot}.{name}"] for slot in slots if f"{slot}.{name}" in tensors}
            if held:  # a checkpoint from before the first update has none
                self.adam.state[parameter] = {slot: tensor.to(parameter.device) for slot, tensor in held.items()}


class MovingAverage:
    """ema ← d · ema + (1 − d) · weights after each update; d grows to its full value over the first steps."""

    def __init__(self, parameters: Iterable[Tensor], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self.average = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights and their average; twice is nothing."""
        for parameter, average in zip(self.parameters, self.average, strict=True):
            held = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(held)
