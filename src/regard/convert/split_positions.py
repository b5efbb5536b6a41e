"""Sinusoidal positions of other programs: all sines come first, then all cosines; in ours they alternate.

The positions become ours when all vectors of the model are permuted in the same way, which changes nothing else.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from regard.convert.imports.tensor_files import TensorFiles
from regard.nn.positions import sinusoid

PositionLayout = Literal["split", "alternating", "learned"]

_INPUTS = r".*\.(tokens|query|key_value|inner)\.weight|output\.weight|.*\.table"
"""Our tensors whose columns belong to the dimensions of the model's vectors"""
_OUTPUTS = r".*\.(out|outer)\.(weight|bias)|.*norm\.(weight|bias)"
"""Our tensors whose rows do"""


def position_layout(files: TensorFiles, name: str) -> PositionLayout:
    """Return what the table of positions of that name holds; without a table, positions are split."""
    if name not in files.shapes:
        return "split"
    table = files.read(name).float()
    if table.ndim != 2:
        return "learned"
    ours = sinusoid(torch.arange(len(table)), table.shape[1]).to(table)
    if torch.allclose(table, ours, atol=1e-5):
        return "alternating"
    return "split" if torch.allclose(table[:, _alternating(table.shape[1])], ours, atol=1e-5) else "learned"


def interleave_positions(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Permute the vectors of a model, given by our names, so that its split positions become ours."""
    return {name: _permute(name, tensor, _alternating) for name, tensor in tensors.items()}


def split_positions(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Permute the vectors of a model of ours so that its positions become split: the inverse."""
    return {name: _permute(name, tensor, _halves) for name, tensor in tensors.items()}


def _permute(name: str, tensor: Tensor, order: Callable[[int], Tensor]) -> Tensor:
    if re.fullmatch(_INPUTS, name):
        return tensor[:, order(tensor.shape[1]).to(tensor.device)]
    if re.fullmatch(_OUTPUTS, name):
        return tensor[order(len(tensor)).to(tensor.device)]
    return tensor


def _alternating(width: int) -> Tensor:
    """Return 0, D/2, 1, D/2 + 1, …: the first half and the second half in turns"""
    first = torch.arange((width + 1) // 2)
    return torch.stack([first, first + (width + 1) // 2], dim=1).flatten()[:width]


def _halves(width: int) -> Tensor:
    """Return 0, 2, 4, …, 1, 3, 5, …"""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
