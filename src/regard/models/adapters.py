"""LoRA adapters of a model: added to its linear maps before training, merged into them afterwards."""

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import nn

from regard.config import Config
from regard.errors import UserError
from regard.nn.attention import MultiHeadAttention
from regard.nn.feedforward import FeedForward, GatedFeedForward
from regard.nn.linear import Linear
from regard.nn.low_rank import LowRank

Target = Literal["attention", "feed_forward"]

_OWNERS: dict[Target, tuple[type[nn.Module], ...]] = {
    "attention": (MultiHeadAttention,),
    "feed_forward": (FeedForward, GatedFeedForward),
}


class LoraConfig(Config):
    rank: int = Field(0, ge=0, le=4_096)
    """Train only a product of two matrices of this rank for each target, as in LoRA (Hu et al. 2021); 0: off."""
    alpha: float | None = Field(None, gt=0.0)
    """The product is multiplied by alpha / rank; default: twice the rank."""
    targets: tuple[Target, ...] = Field(("attention", "feed_forward"), min_length=1)
    """The linear maps that get an adapter."""

    @property
    def scale(self) -> float:
        """alpha, or its default"""
        return 2.0 * self.rank if self.alpha is None else self.alpha


def add_adapters(model: nn.Module, config: LoraConfig, seed: int = 0) -> None:
    """Add an adapter to the targets that are trained, and train nothing else. The model's output stays the same."""
    targets = [linear for linear in _target_maps(model, config) if linear.weight.requires_grad]
    if not targets:
        raise UserError(
            f"train.lora.targets: this model has no {' or '.join(config.targets)} layers that can be adapted"
        )
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for linear in targets:
        linear.adapter = LowRank(linear.weight, config.rank, config.scale, generator)


@torch.no_grad()
def merge_adapters(model: nn.Module) -> None:
    """Write the change that each adapter makes into the weights, and remove the adapters."""
    for linear in _adapted(model):
        assert linear.adapter is not None
        linear.weight.copy_(linear.matrix)
        linear.adapter = None


def _target_maps(model: nn.Module, config: LoraConfig) -> Iterator[Linear]:
    owners = tuple(owner for target in config.targets for owner in _OWNERS[target])
    for module in model.modules():
        if isinstance(module, owners):
            yield from (child for child in module.children() if isinstance(child, Linear))


def _adapted(model: nn.Module) -> list[Linear]:
    return [module for module in model.modules() if isinstance(module, Linear) and module.adapter is not None]
