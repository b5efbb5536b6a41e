"""Score functions e(q, k): how well a query matches a key; [..., Tq, Dq] and [..., Tk, Dk] → [..., Tq, Tk]."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError


class Dot(nn.Module):
    """e(q, k) = q · k"""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class ScaledDot(nn.Module):
    """e(q, k) = q · k / √d_k; the scale keeps the variance of the scores independent of the width"""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)


class Cosine(nn.Module):
    """e(q, k) = q · k / (‖q‖ ‖k‖)"""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)


class Bilinear(nn.Module):
    """e(q, k) = qᵀ W k; query and key may have different widths"""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.weight = nn.Linear(d_key, d_query, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ self.weight(k).transpose(-2, -1)


class Additive(nn.Module):
    """e(q, k) = vᵀ tanh(W_q q + W_k k + b)"""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_key)
        self.key = nn.Linear(d_key, d_key, bias=False)
        self.out = nn.Linear(d_key, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        both = self.query(q)[..., :, None, :] + self.key(k)[..., None, :, :]  # [..., Tq, Tk, Dk]
        return self.out(both.tanh()).squeeze(-1)


class Location(nn.Module):
    """e(q, ·) = W q + b, one score per position up to L_max: linear in the query, independent of the keys"""

    def __init__(self, d_query: int, max_len: int) -> None:
        super().__init__()
        self.position_scores = nn.Linear(d_query, max_len)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        n = self._check_length(k)
        return self.position_scores(q)[..., :n]

    def log_softmax(self, q: Tensor, k: Tensor) -> Tensor:
        """Logarithms of weights that sum to 1 over all L_max positions, of which those of the keys are returned"""
        n = self._check_length(k)
        return self.position_scores(q).log_softmax(-1)[..., :n]

    def _check_length(self, k: Tensor) -> int:
        n, max_len = k.shape[-2], self.position_scores.out_features
        if n > max_len:
            raise UserError(
                f"a sequence of {n} tokens is longer than the {max_len} positions of the location score; "
                "split it, or train with a larger max_len"
            )
        return n


SCORES: dict[str, type[nn.Module]] = {
    "dot": Dot,
    "scaled-dot": ScaledDot,
    "cosine": Cosine,
    "bilinear": Bilinear,
    "additive": Additive,
    "location": Location,
}


def make_score(name: str, d_query: int, d_key: int, max_len: int = 0) -> nn.Module:
    """Make the score of that name for queries and keys of these widths; `max_len` is for location."""
    match name:
        case "bilinear":
            return Bilinear(d_query, d_key)
        case "additive":
            return Additive(d_query, d_key)
        case "location":
            return Location(d_query, max_len)
    if d_query != d_key:
        raise UserError(
            f"the {name} score needs queries and keys of the same width, not {d_query} and {d_key}; "
            "use bilinear, additive or location"
        )
    return SCORES[name]()


def score_named(name: str) -> nn.Module:
    """Return the score of that name, which must have no trainable weights."""
    if name not in SCORES:
        raise UserError(f"attention score '{name}' is unknown; choose one of {', '.join(SCORES)}")
    if name in ("bilinear", "additive", "location"):
        raise UserError(
            f"the {name} score has trainable weights; pass a module, e.g. regard.nn.scores.{SCORES[name].__name__}(…)"
        )
    return SCORES[name]()
