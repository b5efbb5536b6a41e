"""Lab: heads that divide the width of the model among them, compared with heads that each have the full width."""

from dataclasses import asdict, dataclass

import torch

from regard.labs.lookup_task import CHANCE, DESCRIPTION, N_LETTERS, LookupModel, LookupTask, correct_answers
from regard.labs.result import Column, LabResult, LinePanel, ResultTable, compare_shares
from regard.labs.training import Budget, count_parameters, heldout_seed, seeded, train_model
from regard.nn.attention import Heads, SelfAttention

QUESTION = "Why does each head have a reduced dimension?"
FULL, QUICK = Budget(400, 500), Budget(5, 50)
HEADS = (1, 2, 4, 8, 16)
D_MODEL = 16
REDUCED, FULL_WIDTH = "d / h", "d"
FORMS = (REDUCED, FULL_WIDTH)
OFFSETS = (1, 2, -1, -2)
_COLUMNS = {
    "width": Column("that is", ".0f"),
    "parameters": Column("parameters of attention", ",.0f"),
    "milliseconds": Column("ms per update", ".1f"),
    "found": Column(f"letters that a head finds, of {N_LETTERS}", ".1f"),
    "correct": Column("all four digits correct", ".1%"),
}
_TASK = LookupTask(OFFSETS)


@dataclass(frozen=True)
class WidthMeasurement:
    width: int
    parameters: int
    milliseconds: float
    """Median time per update."""
    found: float
    """Mean of `letters_found` over the heads."""
    correct: float
    """Share of tokens with all digits correct."""


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    rows: dict[tuple[str, ...], dict[str, float]] = {
        (str(h), form): asdict(measure_form(form, h, budget, seed)) for h in HEADS for form in FORMS
    }
    table = ResultTable(("heads h", "width of each"), _COLUMNS, rows)
    setup = (
        f"{DESCRIPTION} For every token the model has to find four digits: those of the next two letters of the "
        f"alphabet and of the previous two. {budget.updates:,} updates train one attention layer whose h heads divide "
        f"the width d = {D_MODEL} among them, or each have the full width. A head finds a letter if some letter's "
        "query has its highest score there. Times depend on the machine."
    )
    return LabResult(QUESTION, setup, table, _answer(table), _panels(table))


def measure_form(form: str, n_heads: int, budget: Budget, seed: int) -> WidthMeasurement:
    with seeded(seed):
        attention = make_attention(form, n_heads)
        model = LookupModel(D_MODEL, len(OFFSETS), attention)
    seconds = train_model(model, _TASK, budget.updates, lr=2e-2, seed=seed)
    correct = correct_answers(model, _TASK, budget.samples, heldout_seed(seed)).all(-1)
    found = letters_found(model, attention)
    return WidthMeasurement(
        width=attention.widths[0],
        parameters=count_parameters(attention),
        milliseconds=1000 * seconds,
        found=sum(found) / len(found),
        correct=float(correct.float().mean()),
    )


def make_attention(form: str, n_heads: int) -> SelfAttention:
    """Return self-attention with heads of width d / h or d."""
    d_head = D_MODEL if form == FULL_WIDTH else None
    return SelfAttention(Heads(D_MODEL, n_heads, d_head=d_head, bias=False), causal=False)


@torch.inference_mode()
def letters_found(model: LookupModel, attention: SelfAttention) -> list[int]:
    """Return for each head how many letters have the highest score for the query of some letter.

    The scores q·k of a head of width k have rank k at most. With width 1 every query has its highest score at the
    largest key or at the smallest, so that no other letter can be found.
    """
    x = model.letters.weight[None] + model.digits.weight.mean(0)
    q, k = attention.queries(x), attention.keys_values(x).k
    return [len(set(best)) for best in (q @ k.mT)[0].argmax(-1).tolist()]


def _answer(table: ResultTable) -> tuple[str, str, str]:
    enough, most = str(len(OFFSETS)), str(HEADS[-1])
    one, divided, narrow = (table.rows[h, REDUCED] for h in ("1", enough, most))
    full, many = table.rows[enough, FULL_WIDTH], table.rows[most, FULL_WIDTH]
    return (
        f"Heads that divide the width cost the same however many there are, {one['parameters']:,} parameters here; "
        f"{enough} heads of the full width d = {D_MODEL} have {full['parameters']:,}, {most} have "
        f"{many['parameters']:,} and take {many['milliseconds']:.1f} ms per update, compared with "
        f"{narrow['milliseconds']:.1f} ms at the reduced width.",
        f"The same cost buys one head of width {D_MODEL} or {enough} of width {divided['width']}: all four digits are "
        f"correct for {one['correct']:.1%} of the tokens with one (chance: {CHANCE ** len(OFFSETS):.2%}) and for "
        f"{divided['correct']:.1%} with {enough}, {compare_shares(divided['correct'], one['correct'], 'with one')}; "
        f"the full width of {enough} heads gives {full['correct']:.1%}, "
        f"{compare_shares(full['correct'], divided['correct'], 'at the reduced width')}.",
        "A head can also be too narrow: the scores of a head of width k have at most rank k, and at width 1 it can "
        f"find only two letters, those with the largest and the smallest key. {most} heads of width "
        f"{narrow['width']} find {narrow['found']:.1f} letters each, and all four digits are correct for "
        f"{narrow['correct']:.1%} of the tokens, "
        f"{compare_shares(narrow['correct'], divided['correct'], f'with {enough} heads')}.",
    )


def _panels(table: ResultTable) -> tuple[LinePanel, LinePanel, LinePanel]:
    def panel(title: str, y_label: str, key: str, percent: bool = False) -> LinePanel:
        lines = {f"width {form}": [table.value(key, str(h), form) for h in HEADS] for form in FORMS}
        return LinePanel(title, "heads h", y_label, HEADS, lines, "x", percent)

    return (
        panel("Quality", "all four digits correct, %", "correct", percent=True),
        panel("Letters that a head finds", f"letters, of {N_LETTERS}", "found"),
        panel("Size", "parameters of attention", "parameters"),
    )
