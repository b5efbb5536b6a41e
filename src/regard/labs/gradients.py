"""Lab: the gradient from an output letter back to the source letter that it copies, by the distance between them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from regard.labs.letter_task import LetterTask, build_model
from regard.labs.result import Column, LabResult, LinePanel, ResultTable
from regard.labs.training import Budget, heldout_seed, train_model
from regard.models.encoder_decoder import EncoderDecoder

QUESTION = "How does attention help against vanishing gradients?"
FULL, QUICK = Budget(300, 50), Budget(5, 5)
N_LETTERS = 16
DISTANCES = range(2, 2 * N_LETTERS + 1, 2)
"""Recurrent steps from a source letter to its copy: the t-th letter from the end is the t-th of the output."""
NEAR, SPAN = DISTANCES[0], 20
UNTRAINED, TRAINED = "no", "yes"
_COLUMNS = {
    "near": Column(f"norm at distance {NEAR}", ".2g"),
    "far": Column(f"norm at distance {NEAR + SPAN}", ".2g"),
    "fall": Column("factor between them", ",.1f"),
    "correct near": Column(f"correct at distance {NEAR}", ".0%"),
    "correct far": Column(f"correct at distance {NEAR + SPAN}", ".0%"),
}
_WIDTH = 64


def _rnn(cell: str, attention: str) -> dict[str, Any]:
    part = {"kind": "rnn", "cell": cell, "d_model": _WIDTH, "dropout": 0.0}
    encoder, decoder = part | {"bidirectional": False}, part | {"attention": attention}
    return {"kind": "encoder-decoder", "encoder": encoder, "decoder": decoder}


WITHOUT = {"simple RNN": _rnn("rnn", "none"), "GRU": _rnn("gru", "none")}
WITH = {
    "simple RNN, attention": _rnn("rnn", "dot"),
    "GRU, attention": _rnn("gru", "dot"),
    "Transformer": {"d_model": _WIDTH, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0},
}
"""Name → options of the model, without and with attention."""


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    norms: dict[tuple[str, str], list[float]] = {}
    correct: dict[tuple[str, str], list[float]] = {}
    for name, options in (WITHOUT | WITH).items():
        model = build_model(options, seed).eval()
        norms[name, UNTRAINED], correct[name, UNTRAINED] = measure_gradients(model, budget.samples, seed)
        train_model(model, LetterTask("reverse", (2, N_LETTERS)), budget.updates, lr=5e-3, seed=seed)
        norms[name, TRAINED], correct[name, TRAINED] = measure_gradients(model, budget.samples, seed)
    near, far = (DISTANCES.index(distance) for distance in (NEAR, NEAR + SPAN))
    rows: dict[tuple[str, ...], dict[str, float]] = {
        key: {
            "near": norms[key][near],
            "far": norms[key][far],
            "fall": norms[key][near] / norms[key][far],
            "correct near": correct[key][near],
            "correct far": correct[key][far],
        }
        for key in product(WITHOUT | WITH, (UNTRAINED, TRAINED))
    }
    table = ResultTable(("model", "trained"), _COLUMNS, rows)
    setup = (
        f"Models of width {_WIDTH} reverse lines of letters; the encoders of the RNNs read from left to right. In a "
        f"line of {N_LETTERS} letters the t-th letter from the end is the t-th letter of the output, 2t recurrent "
        "steps later: t in the encoder, t in the decoder. Measured, with the right output so far given to the decoder: "
        "the norm of the gradient of the logit of each output letter with respect to the embedding of the source "
        f"letter that it copies (geometric mean of {budget.samples:,} lines), before and after {budget.updates:,} "
        f"updates on lines of 2 to {N_LETTERS} letters."
    )
    return LabResult(QUESTION, setup, table, answer(table), _panels(norms))


def measure_gradients(model: EncoderDecoder, n: int, seed: int) -> tuple[list[float], list[float]]:
    """Return at each of `DISTANCES` the norm of the gradient and the share of correct letters, on `n` new lines."""
    batch = LetterTask("reverse", (N_LETTERS, N_LETTERS)).batch(n, heldout_seed(seed))
    embedded: list[Tensor] = []
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    hooks = [table.register_forward_hook(lambda _, __, output: embedded.append(output)) for table in tables]
    logits = model(batch)
    for hook in hooks:
        hook.remove()
    norms = []
    for t in range(N_LETTERS):
        logit = logits[:, t].gather(1, batch.tgt_out[:, t, None])
        [gradient] = torch.autograd.grad(logit.sum(), embedded[:1], retain_graph=True)  # the source is embedded first
        norms.append(float(gradient[:, N_LETTERS - 1 - t].norm(dim=-1).log().mean().exp()))
    correct = logits.argmax(-1)[:, :N_LETTERS] == batch.tgt_out[:, :N_LETTERS]
    return norms, correct.float().mean(0).tolist()


def answer(table: ResultTable) -> tuple[str, str, str]:
    """Return the answer to the question, given a row for each model before and after training."""

    def factors(models: Iterable[str], state: str) -> dict[str, float]:
        return {name: table.value("fall", name, state) for name in models}

    without, with_attention, learnt = factors(WITHOUT, UNTRAINED), factors(WITH, UNTRAINED), factors(WITHOUT, TRAINED)
    vanishes, stays = min(without.values()) >= 10, max(with_attention.values()) < 10
    keeps = all(learnt[name] < without[name] / 10 for name in WITHOUT)
    return (
        "Without attention the gradient passes through every recurrent step between the two letters and "
        f"{'vanishes' if vanishes else 'does not always vanish in this run'}: before training it becomes smaller by "
        f"the factor {_list(without)} over {SPAN} steps.",
        f"Attention connects the two letters directly, however far apart they are: with it the factor is "
        f"{_list(with_attention)}{'' if stays else ', in this run not always less than 10'}.",
        f"After training it is {_list(learnt)} without attention"
        f"{', because these models have learnt to keep letters in their state,' if keeps else ''} and "
        f"{_list(factors(WITH, TRAINED))} with it; of the letters at distance {NEAR + SPAN}, "
        f"{_correct(table, WITHOUT)} are correct without attention and {_correct(table, WITH)} with it.",
    )


def _list(factors: Mapping[str, float]) -> str:
    parts = [f"{factor:,.{1 if factor < 100 else 0}f} ({name})" for name, factor in factors.items()]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _correct(table: ResultTable, models: Iterable[str]) -> str:
    shares = [table.value("correct far", name, TRAINED) for name in models]
    return f"{min(shares):.0%} to {max(shares):.0%}"


def _panels(norms: Mapping[tuple[str, str], Sequence[float]]) -> tuple[LinePanel, LinePanel]:
    def panel(title: str, state: str) -> LinePanel:
        lines = {name: [norm / norms[name, state][0] for norm in norms[name, state]] for name in WITHOUT | WITH}
        y_label = f"norm relative to distance {NEAR}"
        return LinePanel(title, "distance, recurrent steps", y_label, DISTANCES, lines, "y")

    return panel("Gradient before training", UNTRAINED), panel("Gradient after training", TRAINED)
