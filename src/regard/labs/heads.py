"""Lab: attention of one width, divided into 1, 2, 4 and 8 heads, on a task with two answers per token."""

from torch import Tensor

from regard.labs.lookup_task import CHANCE, DESCRIPTION, LookupModel, LookupTask, correct_answers
from regard.labs.result import BarPanel, Column, LabResult, ResultTable, compare_shares
from regard.labs.training import Budget, count_parameters, heldout_seed, seeded, train_model
from regard.nn.attention import Heads, SelfAttention

QUESTION = "Why several heads?"
FULL, QUICK = Budget(1000, 500), Budget(20, 50)
HEADS = (1, 2, 4, 8)
D_MODEL = 8
_OFFSETS = {"next": 1, "previous": -1}
_COLUMNS = {
    "width": Column("width of each", ".0f"),
    "parameters": Column("parameters", ",.0f"),
    "next": Column("next letter's digit correct", ".1%"),
    "previous": Column("previous letter's digit correct", ".1%"),
    "both": Column("both correct", ".1%"),
}
_TASK = LookupTask(tuple(_OFFSETS.values()))


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for n_heads in HEADS:
        with seeded(seed):
            model = LookupModel(D_MODEL, len(_OFFSETS), SelfAttention(Heads(D_MODEL, n_heads), causal=False))
        train_model(model, _TASK, budget.updates, lr=5e-3, seed=seed)
        sizes = {"width": D_MODEL // n_heads, "parameters": count_parameters(model.attention)}
        rows[(str(n_heads),)] = sizes | _shares(correct_answers(model, _TASK, budget.samples, heldout_seed(seed)))
    table = ResultTable(("heads",), _COLUMNS, rows)
    setup = (
        f"{DESCRIPTION} For every token the model has to find two digits, that of the next letter of the alphabet and "
        f"that of the previous one. {budget.updates:,} updates train one attention layer of width {D_MODEL} in total, "
        "divided among its heads."
    )
    bars = {_COLUMNS[key].title: table.values(key) for key in (*_OFFSETS, "both")}
    title = f"One attention layer of width {D_MODEL}, divided among its heads"
    panel = BarPanel(title, "heads", "tokens, %", [str(n) for n in HEADS], bars)
    return LabResult(QUESTION, setup, table, _answer(table), (panel,))


def _shares(correct: Tensor) -> dict[str, float]:
    """Return the share of tokens with each answer correct, and with both; correct [tokens, answers]."""
    shares = dict(zip(_OFFSETS, correct.float().mean(0).tolist(), strict=True))
    return shares | {"both": float(correct.all(-1).float().mean())}


def _answer(table: ResultTable) -> tuple[str, str, str]:
    both = dict(zip(HEADS, table.values("both"), strict=True))
    best, most = max(both, key=lambda n: both[n]), HEADS[-1]
    return (
        "One head gives each token one weighted mean, in which two digits are hard to tell apart: with one head "
        f"{table.value('next', '1'):.1%} of the next letters' digits and {table.value('previous', '1'):.1%} of the "
        f"previous letters' digits are correct (chance: {CHANCE:.1%}), and both for {both[1]:.1%} of the tokens.",
        "Two heads of half the width have the same number of parameters and can attend to two tokens at once: both "
        f"digits are correct for {both[2]:.1%} of the tokens, {compare_shares(both[2], both[1], 'with one head')}.",
        f"More heads are narrower: with {most} heads of width {D_MODEL // most} both digits are correct for "
        f"{both[most]:.1%} of the tokens, {compare_shares(both[most], both[2], 'with two heads')}. The best number of "
        f"heads in this run was {best}.",
    )
