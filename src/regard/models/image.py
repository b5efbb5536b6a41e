"""An encoder of pictures: regions take the place of words."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.models.parts import Memory
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

    def forward(self, src: Tensor, need_weights: bool = False) -> Memory:
        x = self.eyes(src).flatten(2).transpose(1, 2) + self.places
        return self.stack.encode(
            self.dropout(x), torch.ones(x.shape[:2], dtype=torch.bool, device=x.device), need_weights
        )


def _patches(config: ImageEncoderConfig) -> nn.Module:
    return nn.Conv2d(3, config.d_model, kernel_size=config.patch, stride=config.patch)


def _convolutions(config: ImageEncoderConfig) -> nn.Module:
    """3×3 convolutions, then the mean of each region."""
    half = max(8, config.d_model // 2)
    return nn.Sequential(
        nn.Conv2d(3, half, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(half, config.d_model, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(config.patch),
    )
