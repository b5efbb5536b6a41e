"""The residual connection and where its norm stands."""

from torch import Tensor, nn

NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


class Residual(nn.Module):
    """Around a sub-layer f.  pre: x + dropout(f(norm(x)));  post: norm(x + dropout(f(x)))

    `enter` gives f its input, `leave` adds f's output; in between, f may return more than one value.
    """

    def __init__(self, d_model: int, dropout: float, norm: str, norm_kind: str = "layer") -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = NORMS[norm_kind](d_model)
        self.dropout = nn.Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        z = x + self.dropout(y)
        return z if self.pre else self.norm(z)
