"""Changes to what a model computes, as an argument of the model: heads switched off, activations replaced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UserError
from regard.nn.attention import MultiHeadAttention
from regard.nn.changes import HeadChange, LayerChange, Replacement

if TYPE_CHECKING:
    from regard.models.protocols import AttentionModule, DecoderState

HeadIndex = tuple[str, int, int]
"""(kind of attention, layer, head), counted from 0"""
LayerIndex = tuple[str, int]
"""(encoder or decoder, layer), or (kind of attention, layer) for heads"""


class HasAttention(Protocol):
    def attention_modules(self, kind: str) -> "list[AttentionModule]": ...


def check_head(model: HasAttention, index: HeadIndex) -> None:
    """Refuse a head that the model does not have, or that cannot be changed."""
    kind, layer, head = index
    modules = model.attention_modules(kind)
    if not 0 <= layer < len(modules):
        raise UserError(f"this model has no layer {layer} of {kind} attention")
    if not isinstance(modules[layer], MultiHeadAttention):
        raise UserError(
            "attention with a single head, as that of an RNN decoder, has no heads to switch off or replace"
        )
    if not 0 <= head < modules[layer].n_heads:
        raise UserError(f"there is no head {head}; this model has 0 to {modules[layer].n_heads - 1}")


@dataclass(frozen=True)
class Intervention:
    """Heads that are switched off (their output is zero before W_O), and activations that are replaced.

    Positions of replaced activations count from the first token that a stack reads. In a search, all hypotheses must
    belong to one sentence.
    """

    off: tuple[frozenset[HeadIndex], ...] = ()
    """Heads that are off: one set for all rows of a batch, or one per row"""
    heads: Mapping[LayerIndex, Replacement] = field(default_factory=dict)
    """[H, T, V] for each changed attention module"""
    layers: Mapping[LayerIndex, Replacement] = field(default_factory=dict)
    """[T, D] for each changed layer; the mask is [T, 1]"""

    @classmethod
    def switch_off(cls, model: HasAttention, heads: Iterable[HeadIndex]) -> "Intervention | None":
        """Switch off heads that the model must have; None if there are none."""
        off = frozenset(heads)
        for index in off:
            check_head(model, index)
        return cls((off,)) if off else None

    def encoder_layer(self, layer: int, n_heads: int | None, n: int, device: torch.device) -> LayerChange:
        """Return the change of an encoder layer that reads n tokens; `n_heads` is None without attention."""
        heads = None if n_heads is None else self._heads(("encoder", layer), n_heads, 0, n, device)
        return LayerChange(heads, None, _part(self.layers.get(("encoder", layer)), 0, n))

    def decoder_layer(
        self, layer: int, n_heads: Mapping[str, int], start: int, n: int, device: torch.device
    ) -> LayerChange:
        """Return the change of a decoder layer that reads n tokens from position `start`.

        `n_heads` are those of its kinds of attention, decoder and cross.
        """
        changes = {
            kind: self._heads((kind, layer), number, start, n, device) for kind, number in n_heads.items() if number
        }
        output = _part(self.layers.get(("decoder", layer)), start, n)
        return LayerChange(changes.get("decoder"), changes.get("cross"), output)

    def output_of(self, stack: str, layer: int, start: int, n: int) -> Replacement | None:
        """Return the replacement for n vectors that a recurrent layer returns."""
        return _part(self.layers.get((stack, layer)), start, n)

    def _heads(self, index: LayerIndex, n_heads: int, start: int, n: int, device: torch.device) -> HeadChange | None:
        on = [[(*index, head) not in off for head in range(n_heads)] for off in self.off]
        scale = None
        if not all(map(all, on)):
            scale = torch.tensor(on, dtype=torch.float32, device=device)
            scale = scale[0] if len(on) == 1 else scale
        replacement = _part(self.heads.get(index), start, n)
        return None if scale is None and replacement is None else HeadChange(scale, replacement)


def _part(replacement: Replacement | None, start: int, n: int) -> Replacement | None:
    """Return n positions of a replacement from `start`; nothing is replaced after its end."""
    if replacement is None:
        return None
    values, mask = (tensor[..., start : start + n, :] for tensor in replacement)
    if not (missing := n - values.shape[-2]):
        return Replacement(values, mask) if mask.any() else None
    padding = (0, 0, 0, missing)
    padded = Replacement(torch.nn.functional.pad(values, padding), torch.nn.functional.pad(mask, padding))
    return padded if padded.mask.any() else None


class SearchableModel(Protocol):
    """A model that search can decode with, and that can be changed."""

    def max_target_len(self, batch: Batch) -> Tensor | None: ...
    def start(self, batch: Batch, intervention: Intervention | None = None) -> "DecoderState": ...
    def step(self, state: "DecoderState", ids: Tensor) -> "tuple[Tensor, DecoderState]": ...


@dataclass(frozen=True)
class ChangedModel:
    """A model with an intervention, for search."""

    model: SearchableModel
    intervention: Intervention | None

    def max_target_len(self, batch: Batch) -> Tensor | None:
        return self.model.max_target_len(batch)

    def start(self, batch: Batch) -> "DecoderState":
        return self.model.start(batch, self.intervention)

    def step(self, state: "DecoderState", ids: Tensor) -> "tuple[Tensor, DecoderState]":
        return self.model.step(state, ids)
