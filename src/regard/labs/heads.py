"""Q4: one width cut into 1, 2, 4 and 8 heads, where each token wants two things at once."""

from torch import Tensor

from regard.labs.lookup_task import CHANCE, ROWS, Lookup, Reader, right
from regard.labs.result import BarPanel, LabResult, against, percent
from regard.labs.training import fit, n_parameters, seeded, unseen
from regard.nn.attention import Heads, SelfAttention

QUESTION = "Why several heads?"
HEADS = (1, 2, 4, 8)
_D_MODEL = 8
_WANTS = {"digit of the next letter": 1, "digit of the one before": -1}
_TASK = Lookup(tuple(_WANTS.values()))


def run(seed: int = 1, quick: bool = False) -> LabResult:
    updates, n = (20, 50) if quick else (1000, 500)
    shares: dict[int, list[float]] = {}
    rows = []
    for n_heads in HEADS:
        with seeded(seed):
            model = Reader(_D_MODEL, len(_WANTS), SelfAttention(Heads(_D_MODEL, n_heads), causal=False))
        fit(model, _TASK, updates, lr=5e-3, seed=seed)
        shares[n_heads] = _shares(right(model, _TASK, n, unseen(seed)))
        size = f"{n_parameters(model.attention):,}"
        rows.append((str(n_heads), str(_D_MODEL // n_heads), size, *map(percent, shares[n_heads])))
    head = ("heads", "width of each", "parameters", *_WANTS, "both")
    bars = {name: [share[i] for share in shares.values()] for i, name in enumerate((*_WANTS, "both"))}
    setup = (
        f"{ROWS} Every token is asked for two digits, of the letter after its own and of the one before it; "
        f"{updates:,} updates teach an attention of width {_D_MODEL} in all, cut into heads."
    )
    panel = BarPanel(f"Attention {_D_MODEL} wide, cut into heads", "heads", "right, %", [str(n) for n in HEADS], bars)
    return LabResult(
        QUESTION, setup, (head, *rows), _answer({n: share[-1] for n, share in shares.items()}, shares[1]), (panel,)
    )


def _shares(hits: Tensor) -> list[float]:
    """Of each question, and of both at once"""
    return [*hits.float().mean(0).tolist(), float(hits.all(-1).float().mean())]


def _answer(both: dict[int, float], alone: list[float]) -> tuple[str, str, str]:
    first, second, together = alone
    best = max(both, key=lambda n: both[n])
    narrow = HEADS[-1]
    return (
        "A head gives each token one mean, and two digits in one mean are hard to tell apart: asked for both, one "
        f"head has {percent(first)} and {percent(second)} of them right (chance: {percent(CHANCE)}), and both for "
        f"{percent(together)} of the tokens.",
        "Two heads of half the width have no more parameters and can look at two places: both are right for "
        f"{percent(both[2])}, {against(both[2], together, 'with one head')}.",
        f"The more heads, the narrower each: {narrow} of width {_D_MODEL // narrow} reach {percent(both[narrow])}, "
        f"{against(both[narrow], both[2], 'with two')}, and the best number here was {best}.",
    )
