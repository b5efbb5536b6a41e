"""The optimizer, learning rate schedules, and a moving average of the weights (EMA)."""

import math
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config
from regard.errors import UserError
from regard.train.cuda_graphs import GraphRunner
from regard.train.muon import Muon, embedding_tables, hidden_matrices
from regard.train.shards import local_part, part_of, total_norm, whole

Decay = Annotated[float, Field(ge=0.0, lt=1.0)]

_NOT_DECAYED = {"positions", "a_log"}
"""Names of position tables and of the state-space transition, which weight decay leaves alone"""


class OptimConfig(Config):
    optimizer: Literal["adam", "muon"] = "adam"
    """muon: Muon for the matrices of the layers, Adam for the rest; needs fewer updates, which take a little longer."""
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
    peak = peak_rate(config, d_model)
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


def peak_rate(config: OptimConfig, d_model: int) -> float:
    """Return the highest learning rate, at the end of the warm-up."""
    return config.lr if config.lr is not None else (d_model * config.warmup) ** -0.5


class AdamState(NamedTuple):
    """What Adam keeps of each parameter."""

    step: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor

    @classmethod
    def of(cls, parameter: Tensor) -> Self:
        """Return the state before the first update."""
        zero = torch.zeros((), dtype=torch.float32, device=parameter.device)
        return cls(zero, torch.zeros_like(parameter), torch.zeros_like(parameter))

    def map(self, change: Callable[[Tensor, Tensor], Tensor], parameter: Tensor) -> Self:
        """Return the state with changed moments."""
        return type(self)(self.step, change(self.exp_avg, parameter), change(self.exp_avg_sq, parameter))


class Optimizer:
    """Adam, or Muon with Adam, with gradient clipping; skips an update whose gradient is not finite.

    The check is made on the device (`found_inf` of the fused kernel), so that the host never waits for it. The kernel
    is called directly: torch.optim imports torch's compiler, which takes longer than a small model's first updates.
    """

    def __init__(self, model: nn.Module, config: OptimConfig, recorded: bool = False, half: bool = False) -> None:
        """With `recorded` the update is captured as a CUDA graph; with `half` Muon computes in bf16."""
        trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        self.names, self.parameters = zip(*trained, strict=True)
        self.config = config
        self.muon = Muon(hidden_matrices(model) if config.optimizer == "muon" else (), config.weight_decay, half)
        self.groups = _parameter_groups(model, config.weight_decay, without=self.muon.momentum)
        self.adam: dict[nn.Parameter, AdamState] = {}
        device = self.parameters[0].device
        self.skipped = torch.zeros(2, dtype=torch.int64, device=device)
        """Updates skipped because the gradient was not finite: in total, and in a row up to now"""
        self._graph = GraphRunner(self._update) if recorded else None

    def step(self, lr: float) -> Tensor:
        """Update the weights and return the gradient's norm before clipping; the gradients stay as they are."""
        norm = self._update(lr) if self._graph is None else self._graph(torch.full((), lr, device=self.skipped.device))
        # For torch neither the fused kernel nor a replayed graph changes the weights, but copies must be renewed.
        torch.autograd.graph.increment_version([local_part(p) for p in self.parameters])
        return norm

    @torch.no_grad()
    def _update(self, lr: float | Tensor) -> Tensor:
        trained = [p for p in self.parameters if p.grad is not None]
        by_adam = [p for p in trained if p not in self.muon.momentum]
        self.adam |= {p: AdamState.of(local_part(p)) for p in by_adam if p not in self.adam}
        norm = total_norm([p.grad for p in trained if p.grad is not None])
        bad = ~norm.isfinite()
        # The kernel divides the gradient by this number, which saves a pass over it.
        scale = (norm / self.config.clip).clamp(min=1.0).float() if self.config.clip else None
        for weight_decay, group in self.groups:
            self._adam([p for p in group if p.grad is not None], lr, weight_decay, scale, bad.float())
        self.muon.step(lr, scale, bad)
        self.skipped.copy_(torch.stack([self.skipped[0] + bad, (self.skipped[1] + 1) * bad]))
        return norm

    def _adam(
        self, parameters: list[nn.Parameter], lr: float | Tensor, decay: float, scale: Tensor | None, bad: Tensor
    ) -> None:
        """θ ← θ − lr · (m̂ / (√v̂ + ε) + decay · θ), unless the gradient is bad"""
        if not parameters:
            return
        steps, means, squares = map(list, zip(*(self.adam[p] for p in parameters), strict=True))
        (beta1, beta2), eps = self.config.betas, self.config.eps
        torch._foreach_add_(steps, 1)
        weights = [local_part(p) for p in parameters]
        gradients = [local_part(p.grad) for p in parameters if p.grad is not None]
        torch._fused_adamw_(
            weights, gradients, means, squares, [], steps,
            lr=lr,
            beta1=beta1, beta2=beta2, weight_decay=decay, eps=eps,
            amsgrad=False, maximize=False, grad_scale=scale, found_inf=bad,
        )  # fmt: skip
        torch._foreach_sub_(steps, [bad] * len(steps))

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state under the parameters' names; before the first update Adam has none.

        If the weights are divided among ranks, all of them must call this, and the first one gets the state.
        """
        tensors = {"skipped": self.skipped}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if parameter in self.adam:
                tensors |= {
                    f"{slot}.{name}": value
                    for slot, value in self.adam[parameter].map(whole, parameter)._asdict().items()
                }
            if parameter in self.muon.momentum:
                tensors[f"momentum.{name}"] = self.muon.momentum[parameter]
        return tensors

    def restore(self, tensors: dict[str, Tensor], where: str) -> None:
        """Load what `state` returned; `where` is named in errors."""
        expected = {"skipped": self.skipped.shape}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if f"step.{name}" in tensors:  # a parameter that never had a gradient has no state
                expected |= {f"{slot}.{name}": _slot_shape(slot, parameter) for slot in AdamState._fields}
            if parameter in self.muon.momentum:
                expected[f"momentum.{name}"] = parameter.shape
        for name in sorted(expected.keys() ^ tensors.keys()):
            raise UserError(
                f"{where}: the optimizer's '{name}' is {'missing' if name in expected else 'not of this model'}"
            )
        for name, shape in expected.items():
            if tensors[name].shape != shape:
                raise UserError(
                    f"{where}: the optimizer's '{name}' has shape {tuple(tensors[name].shape)}, not {tuple(shape)}"
                )
        if self._graph:
            self._graph.forget()  # it has the addresses of the state before
        self.skipped.copy_(tensors["skipped"])
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if f"step.{name}" in tensors:
                state = (tensors[f"{slot}.{name}"].to(parameter.device, torch.float32) for slot in AdamState._fields)
                self.adam[parameter] = AdamState(*state).map(part_of, parameter)
            if parameter in self.muon.momentum:
                self.muon.momentum[parameter].copy_(tensors[f"momentum.{name}"])


def _slot_shape(slot: str, parameter: Tensor) -> torch.Size:
    return torch.Size() if slot == "step" else parameter.shape


def _parameter_groups(
    model: nn.Module, weight_decay: float, without: Container[nn.Parameter] = ()
) -> list[tuple[float, list[nn.Parameter]]]:
    """Divide the parameters into those that are decayed, which are weight matrices, and the others.

    Not decayed are vectors (norms, biases), embeddings of tokens and of positions, and `a_log` of state-space layers.
    An output matrix that is tied to an embedding is the same parameter and counts as an embedding.
    """
    embeddings = embedding_tables(model)
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter in without:
            continue
        is_matrix = parameter.dim() >= 2 and parameter not in embeddings and not _NOT_DECAYED & set(name.split("."))
        (decayed if is_matrix and weight_decay else others).append(parameter)
    return [(weight_decay, decayed), (0.0, others)]


class MovingAverage:
    """Exponential moving average: ema ← d · ema + (1 − d) · weights after each update.

    In the first steps d is smaller, so that the initial weights are soon forgotten.
    """

    def __init__(self, parameters: Iterable[Tensor], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self.average = [local_part(p.detach()).clone() for p in self.parameters]

    @torch.no_grad()
    def restart(self) -> None:
        """Start again from the present weights."""
        for average, parameter in zip(self.average, self.parameters, strict=True):
            average.copy_(local_part(parameter.detach()))

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.average, [local_part(p.detach()) for p in self.parameters], 1 - decay)

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], names: Sequence[str], where: str) -> None:
        """Load the averages of the parameters `names`; `where` is named in errors."""
        for name, average, parameter in zip(names, self.average, self.parameters, strict=True):
            if name not in tensors or tensors[name].shape != parameter.shape:
                raise UserError(f"{where}: the moving average of '{name}' is missing or has another shape")
            average.copy_(part_of(tensors[name], parameter))

    def state(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Return the averages under the names of the parameters."""
        averages = zip(names, self.average, self.parameters, strict=True)
        return {name: whole(average, parameter) for name, average, parameter in averages}

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights and their average; a second call restores them."""
        for parameter, average in zip(self.parameters, self.average, strict=True):
            mine = local_part(parameter.detach())
            weights = mine.clone()
            mine.copy_(average)
            average.copy_(weights)
