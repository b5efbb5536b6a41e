"""Q2: one Transformer with positions and without, on a task of order and on one without."""

import torch

from regard.labs.letter_task import Letters, exact, new_model
from regard.labs.result import BarPanel, LabResult, against, alike, percent
from regard.labs.training import fit, unseen
from regard.models.encoder_decoder import EncoderDecoder

QUESTION = "Why does a Transformer need positional encoding?"
TASKS = ("reverse", "sort")
KINDS = {"with positions": "sinusoidal", "without": "none"}
_LENGTHS = (2, 8)
_SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}


def run(seed: int = 1, quick: bool = False) -> LabResult:
    updates, n = (15, 20) if quick else (350, 500)
    shares: dict[str, list[float]] = {}
    moved: dict[str, float] = {}
    for name, kind in KINDS.items():
        shares[name] = []
        for task in (Letters(task, _LENGTHS) for task in TASKS):
            model = new_model({**_SIZES, "positions": kind}, seed)
            fit(model, task, updates, lr=3e-3, seed=seed)
            shares[name].append(exact(model, task, n, unseen(seed)))
        moved[name] = shift_of_permuted(model, seed)
    rows = [(name, *map(percent, shares[name]), f"{moved[name]:.1g}") for name in KINDS]
    head = ("Transformer", *(f"{task}, exactly right" for task in TASKS), "shuffled source: outputs move by")
    setup = (
        f"A Transformer with sinusoidal positions or with none learns in {updates:,} updates to reverse or to sort "
        f"lines of {_LENGTHS[0]} to {_LENGTHS[1]} letters. The test is {n:,} lines, drawn anew."
    )
    panel = BarPanel("The same Transformer, trained alike", "task", "exactly right, %", TASKS, shares)
    return LabResult(QUESTION, setup, (head, *rows), _answer(shares, moved), (panel,))


def shift_of_permuted(model: EncoderDecoder, seed: int) -> float:
    """‖encoder(P x) − P encoder(x)‖ / ‖encoder(x)‖: 0 where a shuffled source gives the same outputs, shuffled"""
    src, _ = Letters("copy", (8, 8)).pairs(50, unseen(seed))
    ids = torch.tensor(src)
    order = torch.randperm(ids.shape[1], generator=torch.Generator().manual_seed(seed))
    with torch.inference_mode():
        plain, shuffled = model.encoder(ids).values, model.encoder(ids[:, order]).values
    return float((shuffled - plain[:, order]).norm() / plain.norm())


def _answer(shares: dict[str, list[float]], moved: dict[str, float]) -> tuple[str, str, str]:
    (reverse, sort), (bag_reverse, bag_sort) = shares.values()
    placed, bag = moved.values()
    decides = reverse > bag_reverse and not alike(reverse, bag_reverse)
    return (
        "Attention sees a set: shuffle the source, and without positions the encoder gives the same vectors, shuffled, "
        f"but for {bag:.1g} of their norm; with positions they differ by {placed:.1g} of it.",
        f"Where order is the task, {'that decides' if decides else 'this run shows no harm'}: of the lines to be "
        f"reversed {percent(reverse)} come out right with positions and {percent(bag_reverse)} without, "
        f"{against(bag_reverse, reverse, 'with them')}.",
        f"Where order is no part of the question, {_harm(sort, bag_sort)}: sorted right are {percent(sort)} with and "
        f"{percent(bag_sort)} without.",
    )


def _harm(share: float, without: float) -> str:
    if max(share, without) < 0.5:
        return "neither learnt the task in this run"
    return "a set is enough" if alike(share, without) or without > share else "positions helped too"
