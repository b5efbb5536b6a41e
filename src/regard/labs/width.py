"""Q6: heads that share the width among them against heads that have all of it each."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from regard.labs.lookup_task import ROWS, Lookup, Reader, right
from regard.labs.result import LabResult, LinePanel, against, alike, percent
from regard.labs.training import fit, n_parameters, seeded, unseen
from regard.nn.attention import Heads, SelfAttention

QUESTION = "Why does each head have a reduced dimension?"
HEADS = (2, 4, 8)  # with one head the two are the same
D_MODEL = 64
_TASK = Lookup((1, -1))


class FullWidth(SelfAttention):
    """h heads of width d instead of d/h: maps from d to h·d, and back"""

    def __init__(self, d_model: int, n_heads: int) -> None:
        wide = n_heads * d_model
        super().__init__(Heads(wide, n_heads, bias=False), causal=False)
        self.query = nn.Linear(d_model, wide, bias=False)
        self.key_value = nn.Linear(d_model, 2 * wide, bias=False)
        self.out = nn.Linear(wide, d_model, bias=False)


FORMS: dict[str, Callable[[int], SelfAttention]] = {
    "d / h": lambda n_heads: SelfAttention(Heads(D_MODEL, n_heads, bias=False), causal=False),
    "d": lambda n_heads: FullWidth(D_MODEL, n_heads),
}


@dataclass(frozen=True)
class WidthResult:
    parameters: int
    milliseconds: float
    """An update, median"""
    right: float
    """Tokens with both answers right"""


def run(seed: int = 1, quick: bool = False) -> LabResult:
    updates, n = (5, 50) if quick else (400, 500)
    found = {name: [measure(make, h, updates, n, seed) for h in HEADS] for name, make in FORMS.items()}
    rows = [
        (str(h), name, f"{m.parameters:,}", f"{m.milliseconds:.1f}", percent(m.right))
        for i, h in enumerate(HEADS)
        for name, m in ((name, measured[i]) for name, measured in found.items())
    ]
    setup = (
        f"{ROWS} Every token is asked for two digits, of the letter after its own and of the one before it; "
        f"{updates:,} updates teach h heads that share the width d = {D_MODEL}, or have all of it each. Times are this "
        "machine's."
    )
    head = ("heads", "width of each", "parameters of attention", "ms an update", "both right")
    return LabResult(QUESTION, setup, (head, *rows), _answer(found), _panels(found))


def measure(attention: Callable[[int], SelfAttention], n_heads: int, updates: int, n: int, seed: int) -> WidthResult:
    with seeded(seed):
        model = Reader(D_MODEL, 2, attention(n_heads))
    seconds = fit(model, _TASK, updates, lr=5e-3, seed=seed)
    both = right(model, _TASK, n, unseen(seed)).all(-1)
    return WidthResult(n_parameters(model.attention), 1000 * seconds, float(both.float().mean()))


def _answer(found: dict[str, list[WidthResult]]) -> tuple[str, str, str]:
    narrow, wide = found["d / h"], found["d"]
    most = HEADS[-1]
    share, whole = narrow[-1], wide[-1]
    return (
        f"Heads that share the width cost the same however many they are, {narrow[0].parameters:,} parameters with "
        f"{HEADS[0]} and {share.parameters:,} with {most}; {most} heads of the whole width d = {D_MODEL} have "
        f"{whole.parameters:,}, {whole.parameters / share.parameters:.1f} times as many.",
        f"An update takes {whole.milliseconds:.1f} ms then and {share.milliseconds:.1f} where they share it, "
        f"{whole.milliseconds / share.milliseconds:.1f} times as long.",
        f"With {most} heads both answers are right for {percent(share.right)} of the tokens at width d/h and for "
        f"{percent(whole.right)} at width d, {against(whole.right, share.right, 'at d/h')}; "
        f"{_widest(narrow, wide)}.",
    )


def _widest(narrow: list[WidthResult], wide: list[WidthResult]) -> str:
    gaps = {h: abs(a.right - b.right) for h, a, b in zip(HEADS, narrow, wide, strict=True)}
    most = max(gaps, key=lambda h: gaps[h])
    if alike(gaps[most], 0.0):
        return "nor does the whole width buy more with any other number of heads"
    return f"the two are furthest apart with {most} heads, by {100 * gaps[most]:.1f} points"


def _panels(found: dict[str, list[WidthResult]]) -> tuple[LinePanel, LinePanel, LinePanel]:
    def lines(title: str, y_label: str, key: str, percent: bool = False) -> LinePanel:
        heights = {f"width {name}": [getattr(m, key) for m in measured] for name, measured in found.items()}
        return LinePanel(title, "heads h", y_label, HEADS, heights, "x", percent)

    return (
        lines("What it holds", "parameters of attention", "parameters"),
        lines("What it takes", "ms an update", "milliseconds"),
        lines("What it gives", "both answers right, %", "right", percent=True),
    )
