"""Image encoder: regions of the image take the place of source tokens."""

from itertools import pairwise
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.models.intervention import Intervention
from regard.models.protocols import AttentionModule, Memory
from regard.models.sizes import HeadCount, LayerCount, Width
from regard.models.stack import StackConfig, StackEncoder


class ImageEncoderConfig(StackConfig):
    """The image is cut into patches or read by a small convolutional net; self-attention layers follow."""

    kind: Literal["image"] = "image"  # type: ignore[assignment]
    size: int = Field(48, ge=8, le=4_096)
    """Side of the image in pixels; images are scaled to it."""
    patch: int = Field(8, ge=2, le=1_024)
    """Side of a region in pixels."""
    stem: Literal["patches", "convolutions"] = "patches"
    """How pixels become vectors, one per region."""
    d_model: Width = 128
    n_heads: HeadCount = 4
    d_ff: Width = 256
    n_layers: LayerCount = 2

    @model_validator(mode="after")
    def _check_regions(self) -> Self:
        if self.size % self.patch:
            raise ValueError(f"patch={self.patch} must divide size={self.size}")
        if self.stem == "convolutions" and self.patch & (self.patch - 1):
            raise ValueError(f"patch={self.patch} must be a power of two for convolutions")
        return self

    @property
    def regions(self) -> int:
        """Regions per side"""
        return self.size // self.patch


class ImageEncoder(nn.Module):
    """Encodes images [B, 3, size, size] as regions × regions vectors, row by row."""

    can_hide_tokens = False
    max_len: int | None = None

    def __init__(self, config: ImageEncoderConfig) -> None:
        super().__init__()
        self.stem = _patches(config) if config.stem == "patches" else _convolutions(config)
        self.positions = nn.Parameter(torch.empty(config.regions**2, config.d_model))
        nn.init.normal_(self.positions, std=config.d_model**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.stack: StackEncoder = StackEncoder(config, None)
        self.d_model = config.d_model
        self.size = config.size
        self.regions = config.regions

    def forward(self, src: Tensor, need_trace: bool = False, intervention: Intervention | None = None) -> Memory:
        x = self.stem(src).flatten(2).transpose(1, 2) + self.positions
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return self.stack.encode(self.dropout(x), mask, need_trace, intervention)

    def attention_modules(self) -> list[AttentionModule]:
        return self.stack.attention_modules()


def _patches(config: ImageEncoderConfig) -> nn.Module:
    return nn.Conv2d(3, config.d_model, kernel_size=config.patch, stride=config.patch)


def _convolutions(config: ImageEncoderConfig) -> nn.Module:
    """Convolutions that each halve the sides, until one position is one region"""
    n = config.patch.bit_length() - 1
    widths = [3, *(max(8, config.d_model >> (n - 1 - i)) for i in range(n - 1)), config.d_model]
    layers: list[nn.Module] = []
    for d_in, d_out in pairwise(widths):
        layers += [nn.Conv2d(d_in, d_out, kernel_size=4, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
