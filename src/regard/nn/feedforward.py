"""Position-wise feed-forward layers."""

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.linear import Linear


class TanhGELU(nn.Module):
    """x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), the approximation of GELU that GPT-2 uses"""

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "gelu-tanh": TanhGELU, "silu": nn.SiLU}


class FeedForward(nn.Module):
    """FFN(x) = W_2 φ(W_1 x + b_1) + b_2"""

    def __init__(self, d_model: int, d_ff: int, activation: str, bias: bool = True) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_ff, bias=bias)
        self.activation = ACTIVATIONS[activation]()
        self.outer = Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.activation, nn.GELU):
            return self.outer(self.inner.with_gelu(x))
        return self.outer(self.activation(self.inner(x)))


class GatedFeedForward(nn.Module):
    """SwiGLU(x) = W_2 (SiLU(W_g x) ⊙ W_1 x), as in Llama"""

    def __init__(self, d_model: int, d_ff: int, bias: bool = True) -> None:
        super().__init__()
        self.inner = Linear(d_model, 2 * d_ff, bias=bias)
        self.outer = Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(F.silu(gate) * value)


def make_feed_forward(d_model: int, d_ff: int, activation: str, bias: bool = True) -> nn.Module:
    if activation == "swiglu":
        return GatedFeedForward(d_model, d_ff, bias)
    return FeedForward(d_model, d_ff, activation, bias)
