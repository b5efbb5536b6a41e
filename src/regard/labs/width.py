"""Lab: heads that divide the width of the model among them, compared with heads that each have the full width."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from torch import nn

from regard.labs.lookup_task import DESCRIPTION, LookupModel, LookupTask, correct_answers
from regard.labs.result import Column, LabResult, LinePanel, ResultTable, compare_shares, nearly_equal
from regard.labs.training import Budget, count_parameters, heldout_seed, seeded, train_model
from regard.nn.attention import Heads, SelfAttention

QUESTION = "Why does each head have a reduced dimension?"
FULL, QUICK = Budget(400, 500), Budget(5, 50)
HEADS = (2, 4, 8)  # with one head the two forms are the same
D_MODEL = 64
REDUCED, FULL_WIDTH = "d / h", "d"
_COLUMNS = {
    "parameters": Column("parameters of attention", ",.0f"),
    "milliseconds": Column("ms per update", ".1f"),
    "correct": Column("both digits correct", ".1%"),
}
_TASK = LookupTask((1, -1))


class FullWidthAttention(SelfAttention):
    """h heads of width d instead of d/h: projections from d to h·d, and back."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        total = n_heads * d_model
        super().__init__(Heads(total, n_heads, bias=False), causal=False)
        self.query = nn.Linear(d_model, total, bias=False)
        self.key_value = nn.Linear(d_model, 2 * total, bias=False)
        self.out = nn.Linear(total, d_model, bias=False)


FORMS: dict[str, Callable[[int], SelfAttention]] = {
    REDUCED: lambda n_heads: SelfAttention(Heads(D_MODEL, n_heads, bias=False), causal=False),
    FULL_WIDTH: lambda n_heads: FullWidthAttention(D_MODEL, n_heads),
}
"""Width of each head → attention with the given number of heads."""


@dataclass(frozen=True)
class WidthMeasurement:
    parameters: int
    milliseconds: float
    """Median time per update."""
    correct: float
    """Share of tokens with both digits correct."""


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    rows: dict[tuple[str, ...], dict[str, float]] = {
        (str(h), name): asdict(measure_form(form, h, budget, seed)) for h in HEADS for name, form in FORMS.items()
    }
    table = ResultTable(("heads", "width of each"), _COLUMNS, rows)
    setup = (
        f"{DESCRIPTION} For every token the model has to find two digits, that of the next letter of the alphabet and "
        f"that of the previous one. {budget.updates:,} updates train h heads that divide the width d = {D_MODEL} among "
        "them, or that each have the full width. Times depend on the machine."
    )
    return LabResult(QUESTION, setup, table, _answer(table), _panels(table))


def measure_form(form: Callable[[int], SelfAttention], n_heads: int, budget: Budget, seed: int) -> WidthMeasurement:
    with seeded(seed):
        model = LookupModel(D_MODEL, 2, form(n_heads))
    seconds = train_model(model, _TASK, budget.updates, lr=5e-3, seed=seed)
    both = correct_answers(model, _TASK, budget.samples, heldout_seed(seed)).all(-1)
    return WidthMeasurement(count_parameters(model.attention), 1000 * seconds, float(both.float().mean()))


def _answer(table: ResultTable) -> tuple[str, str, str]:
    fewest, most = str(HEADS[0]), str(HEADS[-1])
    few, reduced, full = table.rows[fewest, REDUCED], table.rows[most, REDUCED], table.rows[most, FULL_WIDTH]
    return (
        f"Heads that divide the width cost the same however many there are: {few['parameters']:,} parameters with "
        f"{fewest} heads and {reduced['parameters']:,} with {most}. With the full width d = {D_MODEL} each, {most} "
        f"heads have {full['parameters']:,}, {full['parameters'] / reduced['parameters']:.1f} times as many.",
        f"With {most} heads an update takes {full['milliseconds']:.1f} ms at full width and "
        f"{reduced['milliseconds']:.1f} ms at reduced width.",
        f"With {most} heads both digits are correct for {reduced['correct']:.1%} of the tokens at width d/h and for "
        f"{full['correct']:.1%} at width d, {compare_shares(full['correct'], reduced['correct'], 'at width d/h')}; "
        f"{_largest_gap(*(_by_heads(table, 'correct', name) for name in FORMS))}.",
    )


def _largest_gap(reduced: Sequence[float], full: Sequence[float]) -> str:
    gaps = {h: abs(a - b) for h, a, b in zip(HEADS, reduced, full, strict=True)}
    widest = max(gaps, key=lambda h: gaps[h])
    if nearly_equal(gaps[widest], 0.0):
        return "nor is the full width better with any other number of heads"
    return f"the largest difference is {100 * gaps[widest]:.1f} points, with {widest} heads"


def _by_heads(table: ResultTable, column: str, name: str) -> list[float]:
    return [table.value(column, str(h), name) for h in HEADS]


def _panels(table: ResultTable) -> tuple[LinePanel, LinePanel, LinePanel]:
    def panel(title: str, y_label: str, key: str, percent: bool = False) -> LinePanel:
        lines = {f"width {name}": _by_heads(table, key, name) for name in FORMS}
        return LinePanel(title, "heads h", y_label, HEADS, lines, "x", percent)

    return (
        panel("Size", "parameters of attention", "parameters"),
        panel("Training time", "ms per update", "milliseconds"),
        panel("Accuracy", "both digits correct, %", "correct", percent=True),
    )
