"""Lab: recurrent models with and without attention on lines of growing length."""

from collections.abc import Sequence
from itertools import takewhile

from regard.labs.letter_task import LetterTask, build_model, exact_match
from regard.labs.result import Column, LabResult, LinePanel, ResultTable, compare_shares
from regard.labs.training import Budget, count_parameters, heldout_seed, train_model

QUESTION = "Why did sequence-to-sequence models without attention fail on long sentences?"
FULL, QUICK = Budget(400, 100), Budget(10, 20)
MODELS = {
    "one vector, width 64": (64, "none"),
    "one vector, width 128": (128, "none"),
    "attention, width 64": (64, "dot"),
}
"""Name → width of the states, attention score."""
LENGTHS = tuple(range(2, 15, 2))
_TASK = "reverse"


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for name, (width, score) in MODELS.items():
        part = {"kind": "rnn", "d_model": width, "dropout": 0.0}
        options = {"kind": "encoder-decoder", "encoder": part, "decoder": part | {"attention": score}}
        model = build_model(options, seed)
        train_model(model, LetterTask(_TASK, (LENGTHS[0], LENGTHS[-1])), budget.updates, lr=5e-3, seed=seed)
        shares = {
            _key(length): exact_match(model, LetterTask(_TASK, (length, length)), budget.samples, heldout_seed(seed))
            for length in LENGTHS
        }
        rows[(name,)] = {"parameters": count_parameters(model), **shares}
    columns = {"parameters": Column("parameters", ",.0f")}
    columns |= {_key(length): Column(_key(length), ".0%") for length in LENGTHS}
    table = ResultTable(("exact match",), columns, rows)
    shares_by_model = {name: exact_match_by_length(table, name) for name in MODELS}
    setup = (
        f"Recurrent encoder-decoder models learn to reverse lines of {LENGTHS[0]} to {LENGTHS[-1]} letters in "
        f"{budget.updates:,} updates. The decoder gets either only the last state of the encoder (one vector) or "
        f"dot-product attention to all of its states. The test is {budget.samples:,} new lines of each length."
    )
    panel = LinePanel(
        "Reversing lines of letters", "length of the line", "exact match, %", LENGTHS, shares_by_model, percent=True
    )
    return LabResult(QUESTION, setup, table, _answer(shares_by_model), (panel,))


def exact_match_by_length(table: ResultTable, model: str) -> list[float]:
    """Return the exact match of a model at each of `LENGTHS`."""
    return [table.value(_key(length), model) for length in LENGTHS]


def longest_solved(shares: Sequence[float]) -> int:
    """Return the length up to which more than half of the lines are correct; 0 if there is none."""
    solved = takewhile(lambda pair: pair[1] > 0.5, zip(LENGTHS, shares, strict=True))
    return max((length for length, _ in solved), default=0)


def _answer(shares_by_model: dict[str, list[float]]) -> tuple[str, str, str]:
    narrow, wide, attention = shares_by_model.values()
    first, last = LENGTHS[0], LENGTHS[-1]
    helps = longest_solved(wide) > longest_solved(narrow)
    return (
        "Without attention the decoder knows the source only by one vector, whose size does not grow with the line: "
        f"at width 64 it reverses {narrow[0]:.1%} of the lines of {first} letters, but {narrow[-1]:.1%} of those of "
        f"{last}.",
        f"A wider vector {'moves this limit' if helps else 'does not move this limit in this run'}: most lines are "
        f"correct {_solved_range(narrow)} at width 64 and {_solved_range(wide)} at width 128; of the lines of {last} "
        f"letters {wide[-1]:.1%} are correct at width 128.",
        "With attention the decoder reads every state of the encoder at each step: after the same number of updates "
        f"{attention[-1]:.1%} of the lines of {last} letters are correct, "
        f"{compare_shares(attention[-1], narrow[-1], 'without attention')} at the same width.",
    )


def _solved_range(shares: Sequence[float]) -> str:
    return f"up to {longest_solved(shares)} letters" if longest_solved(shares) else "at no length"


def _key(length: int) -> str:
    return f"length {length}"
