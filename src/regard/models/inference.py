"""Copies of a model that compute the same faster, but cannot be trained: bf16 on a GPU, prepacked weights on a CPU."""

import copy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.adapters import merge_adapters
from regard.nn.attention import SelfAttention
from regard.nn.feedforward import FeedForward
from regard.nn.state_space import SelectiveStateSpace

ModelT = TypeVar("ModelT", bound=nn.Module)

MIN_PACKED_WIDTH = 256
"""oneDNN's prepacked products are slower than plain ones for narrower inputs"""


class InferenceCopies(NamedTuple):
    """What is known of a model, and its copies, with the version of the weights that they were made from"""

    weights: list[nn.Parameter]
    is_recurrent: bool
    made: dict[tuple[torch.dtype, torch.device], tuple[nn.Module, int]]


_COPIES: "WeakKeyDictionary[nn.Module, InferenceCopies]" = WeakKeyDictionary()


class PackedLinear(nn.Module):
    """φ(W x + b) on a CPU by oneDNN, with W laid out for its kernels; φ is GELU or nothing.

    One or two rows are limited by reading W, which a plain product does faster on most processors.
    """

    def __init__(self, linear: nn.Linear, gelu: bool = False) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.gelu = gelu
        self.weight = linear.weight.detach()
        self.bias = None if linear.bias is None else linear.bias.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous(), None)

    def forward(self, x: Tensor) -> Tensor:
        if x.numel() <= 2 * self.in_features and not _plain_is_slow():
            y = F.linear(x, self.weight, self.bias)
            return F.gelu(y) if self.gelu else y
        product: Tensor = _packed_product().linear(x, self.packed, self.bias, "gelu" if self.gelu else "none")
        return product


@cache
def _plain_is_slow() -> bool:
    """Return whether the library of plain products, MKL, is slow: on processors of AMD, by a factor of 2 to 5."""
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


@cache
def _packed_product() -> Any:
    """Return oneDNN's product, whose list of scalars only TorchScript can write in a form that can be traced."""
    return torch.jit.CompilationUnit("""
def linear(x, weight, bias: Optional[Tensor], activation: str):
    scalars: List[Optional[number]] = []
    algorithm = "none" if activation == "gelu" else ""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, scalars, algorithm)
""")


def inference_copy(model: ModelT, precision: str = "auto") -> ModelT:
    """Return a copy of a model for decoding; a model without weights is returned itself.

    `precision` is fp32, bf16 or auto: bf16 on a GPU for models without a recurrence, in which errors add up. The copy
    is kept as long as the model, and brought up to date when the weights have changed.
    """
    known = _COPIES.get(model)
    if known is None:
        known = _COPIES[model] = InferenceCopies(list(model.parameters()), _is_recurrent(model), {})
    if not known.weights:
        return model
    dtype, device = known.weights[0].dtype, known.weights[0].device
    on_gpu = device.type == "cuda"
    if precision == "bf16" or (precision == "auto" and on_gpu and not known.is_recurrent):
        dtype = torch.bfloat16
    version = known.weights[0].data_ptr() + sum(weight._version for weight in known.weights)
    made, made_from = known.made.get((dtype, device), (None, -1))
    if made is None or made_from != version:
        made = _refreshed(made if on_gpu else None, _make_copy(model, dtype, on_gpu))
        known.made[dtype, device] = made, version
    return made  # type: ignore[return-value]


@torch.no_grad()
def _make_copy(model: nn.Module, dtype: torch.dtype, on_gpu: bool) -> nn.Module:
    made = copy.deepcopy(model)
    pairs = list(zip(model.modules(), made.modules(), strict=True))
    merge_adapters(made)
    made = made.to(dtype).eval().requires_grad_(False)
    for original, module in pairs:
        if isinstance(original, SelectiveStateSpace) and isinstance(module, SelectiveStateSpace):
            module.a_log, module.dt_bias = original.a_log, original.dt_bias  # the recurrence is in float32
    for module in list(made.modules()):
        if _joinable(module):
            assert isinstance(module, SelfAttention)
            module.joint = _joined(module.query, module.key_value)
    if not on_gpu and dtype == torch.float32 and torch.backends.mkldnn.is_available():
        _pack(made)
    return made


@torch.no_grad()
def _refreshed(before: nn.Module | None, now: nn.Module) -> nn.Module:
    """Write new weights into the copy that was made before, because captured CUDA graphs refer to its memory."""
    if before is None:
        return now
    for old, new in zip(before.parameters(), now.parameters(), strict=True):
        old.copy_(new)
    return before


def _is_recurrent(model: nn.Module) -> bool:
    return any(isinstance(module, nn.RNNBase) for module in model.modules())


def _joinable(module: nn.Module) -> bool:
    return isinstance(module, SelfAttention) and module.causal


def _joined(*linears: nn.Linear) -> nn.Linear:
    """Return one linear map with the outputs of several, side by side."""
    weight = torch.cat([linear.weight for linear in linears])
    joined = nn.Linear(weight.shape[1], weight.shape[0], bias=linears[0].bias is not None, device=weight.device)
    joined.weight = nn.Parameter(weight, requires_grad=False)
    if joined.bias is not None:
        joined.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]), requires_grad=False)
    return joined


def _pack(module: nn.Module) -> None:
    """Replace the wide linear maps inside a module by packed ones."""
    if isinstance(module, FeedForward) and isinstance(module.activation, nn.GELU) and _is_wide(module.inner):
        module.add_module("inner", PackedLinear(module.inner, gelu=True))
        module.activation = nn.Identity()
    for name, child in list(module.named_children()):
        if _is_wide(child):
            module.add_module(name, PackedLinear(child))
        else:
            _pack(child)


def _is_wide(module: nn.Module) -> TypeGuard[nn.Linear]:
    return isinstance(module, nn.Linear) and module.in_features >= MIN_PACKED_WIDTH
