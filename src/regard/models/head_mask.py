"""Switching attention heads off, as an argument of the model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UserError
from regard.nn.attention import MultiHeadAttention

if TYPE_CHECKING:
    from regard.models.protocols import AttentionModule, DecoderState

HeadIndex = tuple[str, int, int]
"""(kind of attention, layer, head), counted from 0"""


class HasAttention(Protocol):
    def attention_modules(self, kind: str) -> "list[AttentionModule]": ...


@dataclass(frozen=True)
class HeadMask:
    """Heads that are switched off: their output is zero before W_O."""

    off: frozenset[HeadIndex]

    @classmethod
    def of(cls, model: HasAttention, heads: Iterable[HeadIndex]) -> "HeadMask | None":
        """Make a mask of heads that the model must have; None if there are none to switch off."""
        off = frozenset(heads)
        for kind, layer, head in off:
            modules = model.attention_modules(kind)
            if not 0 <= layer < len(modules):
                raise UserError(f"this model has no layer {layer} of {kind} attention")
            if not isinstance(modules[layer], MultiHeadAttention):
                raise UserError("the attention of an RNN decoder has no heads to switch off")
            if not 0 <= head < modules[layer].n_heads:
                raise UserError(f"there is no head {head}; this model has 0 to {modules[layer].n_heads - 1}")
        return cls(off) if off else None

    def layer(self, kind: str, layer: int, n_heads: int, device: torch.device) -> Tensor | None:
        """Return [H] for one layer, 0 = off and 1 = on; None if all its heads are on."""
        on = [(kind, layer, head) not in self.off for head in range(n_heads)]
        return None if all(on) else torch.tensor(on, dtype=torch.float32, device=device)


class SearchableModel(Protocol):
    """A model that search can decode with, and whose heads can be switched off."""

    def max_target_len(self, batch: Batch) -> Tensor | None: ...
    def start(self, batch: Batch, head_mask: HeadMask | None = None) -> "DecoderState": ...
    def step(self, state: "DecoderState", ids: Tensor) -> "tuple[Tensor, DecoderState]": ...


@dataclass(frozen=True)
class MaskedModel:
    """A model with some heads switched off, for search."""

    model: SearchableModel
    head_mask: HeadMask | None

    def max_target_len(self, batch: Batch) -> Tensor | None:
        return self.model.max_target_len(batch)

    def start(self, batch: Batch) -> "DecoderState":
        return self.model.start(batch, self.head_mask)

    def step(self, state: "DecoderState", ids: Tensor) -> "tuple[Tensor, DecoderState]":
        return self.model.step(state, ids)
