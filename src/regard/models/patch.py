"""Activation patching: activations of one input in the place of those of another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models import Model
from regard.models.intervention import Intervention, LayerIndex, check_head
from regard.models.rnn import RnnDecoder, RnnEncoder
from regard.models.stages.calls import ModuleCalls, borrowed_copy
from regard.models.stages.residual_stream import inner_stack
from regard.nn.attention import MultiHeadAttention
from regard.nn.changes import Replacement


@dataclass(frozen=True)
class PatchSite:
    """Where activations are replaced: in the output of a layer or, with `head`, of one head.

    >>> regard.PatchSite("encoder", layer=0, position=2)  # the third token, after the first layer of the encoder
    PatchSite(kind='encoder', layer=0, head=None, position=2)
    """

    kind: str
    """encoder or decoder; for a head also cross"""
    layer: int
    head: int | None = None
    position: int | None = None
    """None: at all positions that both inputs have"""


def layer_sites(model: Model) -> list[PatchSite]:
    """Return the outputs of all layers; of a recurrent decoder, those of its last layer."""
    sites = []
    for kind in ("encoder", "decoder"):
        stack = getattr(model, kind, None)
        first = stack.config.n_layers - 1 if isinstance(stack, RnnDecoder) else 0
        sites += [PatchSite(kind, layer) for layer in range(first, _n_layers(stack))]
    return sites


@torch.inference_mode()
def patch_from(model: Model, donor: Batch, sites: Sequence[PatchSite] = ()) -> Intervention:
    """Return an intervention with the activations that the model has for `donor`, a batch of one with its target.

    By default the outputs of all layers are replaced.
    """
    sites = sites or layer_sites(model)
    for site in sites:
        _check(model, site)
    with borrowed_copy(model) as copied:
        calls = ModuleCalls([copied])
        copied(donor)
        calls.stop()
        heads: dict[LayerIndex, Replacement] = {}
        layers: dict[LayerIndex, Replacement] = {}
        for site in sites:
            index = (site.kind, site.layer)
            if site.head is None:
                layers[index] = _extended(layers.get(index), _layer_output(copied, calls, site), site)
            else:
                heads[index] = _extended(heads.get(index), _head_outputs(copied, calls, site), site)
    return Intervention((), heads, layers)


def combine(off: Intervention | None, patch: Intervention | None) -> Intervention | None:
    """Return an intervention with the heads that `off` switches off and the activations that `patch` replaces."""
    if off is None or patch is None:
        return off or patch
    return replace(patch, off=off.off)


def _check(model: Model, site: PatchSite) -> None:
    if site.head is not None:
        return check_head(model, (site.kind, site.layer, site.head))
    n_layers = _n_layers(getattr(model, site.kind, None))
    if site.kind not in ("encoder", "decoder") or not 0 <= site.layer < n_layers:
        raise UserError(f"this model has no {site.kind} layer {site.layer}")
    if isinstance(getattr(model, site.kind), RnnDecoder) and site.layer != n_layers - 1:
        raise UserError(f"of a recurrent decoder only the last layer can be replaced, here {n_layers - 1}")
    return None


def _n_layers(stack: object) -> int:
    inner = inner_stack(stack)
    if inner is not None:
        return len(inner.layers)
    if isinstance(stack, RnnDecoder):
        return stack.config.n_layers
    return len(stack.layers) if isinstance(stack, RnnEncoder) else 0


def _layer_output(model: Model, calls: ModuleCalls, site: PatchSite) -> Tensor:
    """[T, D]"""
    stack = getattr(model, site.kind)
    if isinstance(stack, RnnDecoder):
        return calls.last(stack).output.hidden[0]
    if isinstance(stack, RnnEncoder):
        return calls.output(stack.layers[site.layer])
    inner = inner_stack(stack)
    assert inner is not None
    return calls.last(inner.layers[site.layer]).output[0][0]


def _head_outputs(model: Model, calls: ModuleCalls, site: PatchSite) -> Tensor:
    """[H, T, V]"""
    module = model.attention_modules(site.kind)[site.layer]
    assert isinstance(module, MultiHeadAttention) and isinstance(module, nn.Module)
    return calls.input(module.out).unflatten(-1, (module.n_heads, -1)).transpose(0, 1)


def _extended(replacement: Replacement | None, values: Tensor, site: PatchSite) -> Replacement:
    """Return the replacement with the positions, and for [H, T, V] the head, of one more site."""
    n = values.shape[-2]
    if site.position is not None and not 0 <= site.position < n:
        raise UserError(f"there is no position {site.position}; the other input has 0 to {n - 1}")
    mask = torch.zeros_like(values[..., :1], dtype=torch.bool) if replacement is None else replacement.mask
    positions = slice(None) if site.position is None else slice(site.position, site.position + 1)
    if site.head is None:
        mask[positions] = True
    else:
        mask[site.head, positions] = True
    return Replacement(values, mask)
