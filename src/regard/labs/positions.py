"""Lab: a Transformer with and without positional encoding, on a task that depends on order and one that does not."""

from collections.abc import Mapping

import torch

from regard.labs.letter_task import LetterTask, build_model, exact_match
from regard.labs.result import BarPanel, Column, LabResult, ResultTable, compare_shares, nearly_equal
from regard.labs.training import Budget, heldout_seed, train_model
from regard.models.encoder_decoder import EncoderDecoder

QUESTION = "Why does a Transformer need positional encoding?"
FULL, QUICK = Budget(350, 500), Budget(15, 20)
TASKS = ("reverse", "sort")
WITH, WITHOUT = "with positions", "without positions"
_ENCODINGS = {WITH: "sinusoidal", WITHOUT: "none"}
_LENGTHS = (2, 8)
_SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}
_COLUMNS = {
    "reverse": Column("reverse, exact match", ".1%"),
    "sort": Column("sort, exact match", ".1%"),
    "shift": Column("change of outputs when the source is shuffled", ".1g"),
}


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for name, encoding in _ENCODINGS.items():
        rows[(name,)] = {}
        for task in (LetterTask(task, _LENGTHS) for task in TASKS):
            model = build_model({**_SIZES, "positions": encoding}, seed)
            train_model(model, task, budget.updates, lr=3e-3, seed=seed)
            rows[(name,)][task.name] = exact_match(model, task, budget.samples, heldout_seed(seed))
        rows[(name,)]["shift"] = shift_of_permuted(model, seed)
    table = ResultTable(("Transformer",), _COLUMNS, rows)
    setup = (
        f"A Transformer with sinusoidal positional encoding or with none learns in {budget.updates:,} updates to "
        f"reverse or to sort lines of {_LENGTHS[0]} to {_LENGTHS[1]} letters. The test is {budget.samples:,} new lines."
    )
    bars = {name: [table.value(task, name) for task in TASKS] for name in _ENCODINGS}
    panel = BarPanel("The same Transformer with and without positions", "task", "exact match, %", TASKS, bars)
    return LabResult(QUESTION, setup, table, answer(rows[(WITH,)], rows[(WITHOUT,)]), (panel,))


def shift_of_permuted(model: EncoderDecoder, seed: int) -> float:
    """Return ‖encoder(P x) − P encoder(x)‖ / ‖encoder(x)‖ for a permutation P: 0 if the encoder is equivariant."""
    src, _ = LetterTask("copy", (8, 8)).pairs(50, heldout_seed(seed))
    ids = torch.tensor(src)
    order = torch.randperm(ids.shape[1], generator=torch.Generator().manual_seed(seed))
    with torch.inference_mode():
        plain, shuffled = model.encoder(ids).values, model.encoder(ids[:, order]).values
    return float((shuffled - plain[:, order]).norm() / plain.norm())


def answer(with_positions: Mapping[str, float], without: Mapping[str, float]) -> tuple[str, str, str]:
    """Return the answer to the question, given exact match on both tasks and the shift of permuted sources."""
    reverse, reverse_without = with_positions["reverse"], without["reverse"]
    matters = reverse > reverse_without and not nearly_equal(reverse, reverse_without)
    return (
        "Attention treats the source as a set: without positions, shuffling the source shuffles the encoder's outputs "
        f"and changes them by only {without['shift']:.1g} of their norm; with positions they change by "
        f"{with_positions['shift']:.1g}.",
        f"When the task depends on order, {'positions decide' if matters else 'this run shows no difference'}: "
        f"{reverse:.1%} of the lines are reversed correctly with positions and {reverse_without:.1%} without, "
        f"{compare_shares(reverse_without, reverse, 'with positions')}.",
        f"When it does not, {_effect_on_sorting(with_positions['sort'], without['sort'])}: "
        f"{with_positions['sort']:.1%} of the lines are sorted correctly with positions and {without['sort']:.1%} "
        "without.",
    )


def _effect_on_sorting(share: float, share_without: float) -> str:
    if max(share, share_without) < 0.5:
        return "neither model learnt the task in this run"
    if nearly_equal(share, share_without) or share_without > share:
        return "positions are not needed"
    return "positions still helped in this run"
