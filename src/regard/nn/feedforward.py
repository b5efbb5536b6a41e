"""The position-wise feed-forward layer."""

from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}


class FeedForward(nn.Module):
    """FFN(x) = W_2 φ(W_1 x + b_1) + b_2"""

    def __init__(self, d_model: int, d_ff: int, activation: str) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]()
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.inner(x)))
