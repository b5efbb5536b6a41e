"""Q5: scores, softmax and its derivative against the width, with and without 1/√d."""

from dataclasses import dataclass
from statistics import mean

import torch
from torch import Tensor, nn

from regard.labs.result import LabResult, LinePanel
from regard.nn.scores import Dot, ScaledDot

QUESTION = "Why must the dot product be scaled before the softmax?"
SCORES: dict[str, type[nn.Module]] = {"q·k": Dot, "q·k / √d": ScaledDot}
_WIDTHS = (4, 16, 64, 256, 1024)
_KEYS = 64


@dataclass(frozen=True)
class ScalingResult:
    """Of one score at one width"""

    variance: float
    entropy: float
    """Of the weights, in bits: log2 of the number of keys where all weigh the same, 0 where one has everything"""
    derivative: float
    """‖∂ softmax / ∂ scores‖: how much any change of the scores is felt; the median over the queries"""


def run(seed: int = 1, quick: bool = False) -> LabResult:
    n = 50 if quick else 500
    found = {name: [measure(score(), d, n, seed) for d in _WIDTHS] for name, score in SCORES.items()}
    rows = [
        (str(d), name, f"{m.variance:,.2f}", f"{m.entropy:.2f}", f"{m.derivative:.2g}")
        for i, d in enumerate(_WIDTHS)
        for name, m in ((name, measured[i]) for name, measured in found.items())
    ]
    setup = (
        f"{n:,} queries with {_KEYS} keys each, all numbers drawn from the normal distribution: the variance of their "
        "scores, the entropy of the weights, and the norm of the derivative of the weights by the scores (median)."
    )
    head = ("d", "score", "variance", "entropy, bits", "derivative")
    return LabResult(QUESTION, setup, (head, *rows), _answer(found), _panels(found))


def measure(score: nn.Module, d: int, n: int, seed: int) -> ScalingResult:
    """n queries, each with keys of its own, all numbers drawn from the normal distribution"""
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, tokens, d, generator=generator) for tokens in (1, _KEYS))
    e: Tensor = score(q, k)[:, 0]
    p = e.softmax(-1)
    entropy = torch.special.entr(p).sum(-1).mean() / torch.tensor(2.0).log()
    jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    return ScalingResult(float(e.var()), float(entropy), float(torch.linalg.matrix_norm(jacobian).median()))


def _answer(found: dict[str, list[ScalingResult]]) -> tuple[str, str, str]:
    narrow, wide = found["q·k"][0], found["q·k"][-1]
    first, last = found["q·k / √d"][0], found["q·k / √d"][-1]
    ratio = mean(m.variance / d for m, d in zip(found["q·k"], _WIDTHS, strict=True))
    return (
        f"The variance of q·k, a sum of d products, is {ratio:.2f} d on average over the widths: "
        f"{narrow.variance:.1f} at d = {_WIDTHS[0]}, {wide.variance:,.0f} at d = {_WIDTHS[-1]}.",
        f"So the softmax over {_KEYS} keys hardens, its entropy going from {narrow.entropy:.2f} to {wide.entropy:.2f} "
        f"bits, and passes little back, the norm of its derivative going from {narrow.derivative:.2g} to "
        f"{wide.derivative:.2g}.",
        f"Divided by √d, the variance is {first.variance:.2f} and {last.variance:.2f} at the two ends, the entropy "
        f"{first.entropy:.2f} and {last.entropy:.2f} bits, the derivative {first.derivative:.2g} and "
        f"{last.derivative:.2g}.",
    )


def _panels(found: dict[str, list[ScalingResult]]) -> tuple[LinePanel, LinePanel, LinePanel]:
    def lines(title: str, y_label: str, key: str, log: str) -> LinePanel:
        heights = {name: [getattr(m, key) for m in measured] for name, measured in found.items()}
        return LinePanel(title, "width d", y_label, _WIDTHS, heights, log)

    return (
        lines("The scores spread with d", "variance of the scores", "variance", "xy"),
        lines("… the softmax hardens", "entropy of the weights, bits", "entropy", "x"),
        lines("… and passes little back", "norm of its derivative", "derivative", "xy"),
    )
