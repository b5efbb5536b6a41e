"""Q7: recurrent models that know the source by one vector or look back at it, by the length of the line."""

from collections.abc import Sequence
from itertools import takewhile

from regard.labs.letter_task import Letters, exact, new_model
from regard.labs.result import LabResult, LinePanel, against, percent
from regard.labs.training import fit, n_parameters, unseen

QUESTION = "Why did sequence-to-sequence models without attention fail on long sentences?"
MODELS = {
    "one vector, width 64": (64, "none"),
    "one vector, width 128": (128, "none"),
    "attention, width 64": (64, "dot"),
}
"""Width of the states, and score of the attention"""
_TASK, _LONGEST = "reverse", 14
_LENGTHS = tuple(range(2, _LONGEST + 1, 2))


def run(seed: int = 1, quick: bool = False) -> LabResult:
    updates, n = (10, 20) if quick else (400, 100)
    shares: dict[str, list[float]] = {}
    rows = []
    for name, (width, score) in MODELS.items():
        part = {"kind": "rnn", "d_model": width, "dropout": 0.0}
        model = new_model({"kind": "encoder-decoder", "encoder": part, "decoder": part | {"attention": score}}, seed)
        fit(model, Letters(_TASK, (_LENGTHS[0], _LONGEST)), updates, lr=5e-3, seed=seed)
        shares[name] = [exact(model, Letters(_TASK, (length, length)), n, unseen(seed)) for length in _LENGTHS]
        rows.append((name, f"{n_parameters(model):,}", *(f"{100 * share:.0f}" for share in shares[name])))
    head = ("exactly right, %", "parameters", *(f"length {length}" for length in _LENGTHS))
    setup = (
        f"Recurrent models learn in {updates:,} updates to reverse lines of {_LENGTHS[0]} to {_LONGEST} letters, by "
        f"the encoder's last state alone or with dot-product attention. The test is {n:,} lines of each "
        "length, drawn anew."
    )
    panel = LinePanel(
        "Lines of letters to be reversed", "length of the line", "exactly right, %", _LENGTHS, shares, percent=True
    )
    return LabResult(QUESTION, setup, (head, *rows), _answer(shares), (panel,))


def _answer(shares: dict[str, list[float]]) -> tuple[str, str, str]:
    small, large, attends = shares.values()
    first, last = _LENGTHS[0], _LENGTHS[-1]
    moved = "moves the limit" if reach(large) > reach(small) else "does not move the limit in this run"
    return (
        "All that the decoder knows of the source is one vector, of the same size for any line: at width 64, "
        f"{percent(small[0])} of the lines of {first} letters come out right, {percent(small[-1])} of those of {last}.",
        f"A wider vector {moved}: most lines are right {_until(small)} at width 64 and {_until(large)} at width 128, "
        f"where of those of {last} letters {percent(large[-1])} are.",
        "With attention the decoder looks back at every state of the source, and after as many updates "
        f"{percent(attends[-1])} of the lines of {last} letters are right, "
        f"{against(attends[-1], small[-1], 'without it')} at the same width.",
    )


def reach(shares: Sequence[float]) -> int:
    """The length up to which most lines are right; 0: not even the shortest"""
    held = takewhile(lambda pair: pair[1] > 0.5, zip(_LENGTHS, shares, strict=True))
    return max((length for length, _ in held), default=0)


def _until(shares: Sequence[float]) -> str:
    return f"up to {reach(shares)} letters" if reach(shares) else "at no length"
