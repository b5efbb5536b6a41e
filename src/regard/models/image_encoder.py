"""An encoder of pictures: regions take the place of words."""

from itertools import pairwise
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.models.protocols import Memory
from regard.models.stack import StackConfig, StackEncoder


class ImageEncoderConfig(StackConfig):
    """The picture is cut into patches, or seen by a small convolutional net; layers of self-attention follow."""

    kind: Literal["image"] = "image"  # type: ignore[assignment]
    size: int = Field(48, ge=8)
    """Pixels of a side; pictures are brought to it."""
    patch: int = Field(8, ge=2)
    """Pixels of a region's side."""
    eyes: Literal["patches", "convolutions"] = "patches"
    d_model: int = Field(128, ge=1)
    n_heads: int = Field(4, ge=1)
    d_ff: int = Field(256, ge=1)
    n_layers: int = Field(2, ge=1)

    @model_validator(mode="after")
    def regions_fit(self) -> Self:
        if self.size % self.patch:
            raise ValueError(f"patch={self.patch} must divide size={self.size}")
        if self.eyes == "convolutions" and self.patch & (self.patch - 1):
            raise ValueError(f"patch={self.patch} must be a power of two for convolutions")
        return self

    @property
    def regions(self) -> int:
        """Regions of a side"""
        return self.size // self.patch


class ImageEncoder(nn.Module):
    """picture [B, 3, size, size] → a memory of regions × regions places, row by row"""

    def __init__(self, config: ImageEncoderConfig) -> None:
        super().__init__()
        self.eyes = _patches(config) if config.eyes == "patches" else _convolutions(config)
        self.places = nn.Parameter(torch.randn(config.regions**2, config.d_model) * config.d_model**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.stack: StackEncoder = StackEncoder(config, None)
        self.d_model = config.d_model
        self.size = config.size
        self.regions = config.regions

    def forward(self, src: Tensor, need_trace: bool = False) -> Memory:
        x = self.eyes(src).flatten(2).transpose(1, 2) + self.places
        return self.stack.encode(
            self.dropout(x), torch.ones(x.shape[:2], dtype=torch.bool, device=x.device), need_trace
        )


def _patches(config: ImageEncoderConfig) -> nn.Module:
    return nn.Conv2d(3, config.d_model, kernel_size=config.patch, stride=config.patch)


def _convolutions(config: ImageEncoderConfig) -> nn.Module:
    """Each convolution halves the sides, until a place is a region."""
    n = config.patch.bit_length() - 1
    widths = [3, *(max(8, config.d_model >> (n - 1 - i)) for i in range(n - 1)), config.d_model]
    layers: list[nn.Module] = []
    for d_in, d_out in pairwise(widths):
        layers += [nn.Conv2d(d_in, d_out, kernel_size=4, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
