"""Lab: scores, softmax and its derivative as functions of the width, with and without the factor 1/√d."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import mean

import torch
from torch import Tensor, nn

from regard.labs.result import Column, LabResult, LinePanel, ResultTable
from regard.labs.training import Budget
from regard.nn.scores import Dot, ScaledDot

QUESTION = "Why must the dot product be scaled before the softmax?"
FULL, QUICK = Budget(0, 500), Budget(0, 50)
PLAIN, SCALED = "q·k", "q·k / √d"
WIDTHS = (4, 16, 64, 256, 1024)
_SCORES: dict[str, type[nn.Module]] = {PLAIN: Dot, SCALED: ScaledDot}
_N_KEYS = 64
_COLUMNS = {
    "variance": Column("variance", ",.2f"),
    "entropy": Column("entropy, bits", ".2f"),
    "derivative": Column("derivative", ".2g"),
}


@dataclass(frozen=True)
class ScoreStatistics:
    """Statistics of one score function at one width."""

    variance: float
    """Variance of the scores."""
    entropy: float
    """Mean entropy of the weights in bits: log2 of the number of keys if all are equal, 0 if one weight is 1."""
    derivative: float
    """Median of ‖∂ softmax / ∂ scores‖ over the queries: how strongly the weights react to a change of the scores."""


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    rows: dict[tuple[str, ...], dict[str, float]] = {
        (str(d), name): asdict(measure_scores(score(), d, budget.samples, seed))
        for d in WIDTHS
        for name, score in _SCORES.items()
    }
    table = ResultTable(("d", "score"), _COLUMNS, rows)
    setup = (
        f"{budget.samples:,} queries with {_N_KEYS} keys each, all components drawn from the standard normal "
        "distribution. Measured: the variance of the scores, the entropy of the attention weights, and the norm of the "
        "derivative of the weights with respect to the scores (median)."
    )
    return LabResult(QUESTION, setup, table, _answer(rows), _panels(table))


def measure_scores(score: nn.Module, d: int, n: int, seed: int) -> ScoreStatistics:
    """Measure a score function on `n` random queries, each with its own random keys."""
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, tokens, d, generator=generator) for tokens in (1, _N_KEYS))
    scores: Tensor = score(q, k)[:, 0]
    p = scores.softmax(-1)
    entropy = torch.special.entr(p).sum(-1).mean() / torch.tensor(2.0).log()
    jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    return ScoreStatistics(float(scores.var()), float(entropy), float(torch.linalg.matrix_norm(jacobian).median()))


def _answer(rows: Mapping[tuple[str, ...], Mapping[str, float]]) -> tuple[str, str, str]:
    first, last = str(WIDTHS[0]), str(WIDTHS[-1])
    narrow, wide, narrow_scaled, wide_scaled = (rows[d, name] for name in _SCORES for d in (first, last))
    ratio = mean(rows[str(d), PLAIN]["variance"] / d for d in WIDTHS)
    return (
        f"q·k is a sum of d products, and its variance is {ratio:.2f} d on average over the widths: "
        f"{narrow['variance']:.1f} at d = {first} and {wide['variance']:,.0f} at d = {last}.",
        f"Such scores saturate the softmax over {_N_KEYS} keys: between these widths its entropy changes from "
        f"{narrow['entropy']:.2f} to {wide['entropy']:.2f} bits and the norm of its derivative from "
        f"{narrow['derivative']:.2g} to {wide['derivative']:.2g}. All gradients to q and k pass through it.",
        f"Divided by √d, the scores have variance {narrow_scaled['variance']:.2f} and {wide_scaled['variance']:.2f} at "
        f"the two widths, the weights have entropy {narrow_scaled['entropy']:.2f} and {wide_scaled['entropy']:.2f} "
        f"bits, and the derivative has norm {narrow_scaled['derivative']:.2g} and {wide_scaled['derivative']:.2g}.",
    )


def _panels(table: ResultTable) -> tuple[LinePanel, LinePanel, LinePanel]:
    def panel(title: str, y_label: str, key: str, log: str) -> LinePanel:
        lines = {name: [table.value(key, str(d), name) for d in WIDTHS] for name in _SCORES}
        return LinePanel(title, "width d", y_label, WIDTHS, lines, log)

    return (
        panel("Unscaled scores grow with d", "variance of the scores", "variance", "xy"),
        panel("… so the softmax saturates", "entropy of the weights, bits", "entropy", "x"),
        panel("… and gradients vanish", "norm of the derivative", "derivative", "xy"),
    )
