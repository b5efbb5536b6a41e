"""Q3: attention whose query, key and value share their matrices, against three of their own, where a token asks for
something that it is not."""

import torch
from torch import Tensor, nn

from regard.labs.lookup_task import ALPHABET, CHANCE, ROWS, Lookup, Reader, right
from regard.labs.result import BarPanel, LabResult, MatrixPanel, against, percent
from regard.labs.training import fit, seeded, unseen
from regard.nn.attention import attend
from regard.nn.scores import ScaledDot

QUESTION = "What exactly are Q, K and V, and why do they exist?"
FORMS = {"Q = K = V": (0, 0, 0), "Q = K, V": (0, 0, 1), "Q, K = V": (0, 1, 1), "Q, K, V": (0, 1, 2)}
"""Which matrix makes the query, the key and the value"""
_D_MODEL, _WIDTH = 16, 3
_TASK = Lookup((1,))


class Shared(nn.Module):
    """One head. It is narrower than the tokens, as heads are, so that it must choose what to carry."""

    def __init__(self, form: tuple[int, int, int]) -> None:
        super().__init__()
        self.form = form
        self.maps = nn.ModuleList(nn.Linear(_D_MODEL, _WIDTH, bias=False) for _ in set(form))
        self.out = nn.Linear(_WIDTH, _D_MODEL)

    def project(self, x: Tensor) -> list[Tensor]:
        return [self.maps[which](x) for which in self.form]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.project(x)
        y, weights = attend(q, k, v)
        return self.out(y), weights


def run(seed: int = 1, quick: bool = False) -> LabResult:
    updates, n = (20, 50) if quick else (1000, 500)
    shares, scores = {}, {}
    for name, form in FORMS.items():
        with seeded(seed):
            attention = Shared(form)
            model = Reader(_D_MODEL, 1, attention)
        fit(model, _TASK, updates, lr=5e-3, seed=seed)
        shares[name] = float(right(model, _TASK, n, unseen(seed)).float().mean())
        scores[name] = mean_scores(model, attention, n, unseen(seed))
    lopsided = {name: asymmetry(e) for name, e in scores.items()}
    rows = [(name, str(len(set(FORMS[name]))), percent(shares[name]), f"{lopsided[name]:.2f}") for name in FORMS]
    head = ("form", "matrices", "right", "asymmetry of the scores")
    setup = (
        f"{ROWS} Every token is asked for the digit of the letter that follows its own; {updates:,} updates teach one "
        f"head of width {_WIDTH}, whose query, key and value share their matrices or do not."
    )
    panels = (
        BarPanel("Who shares what", "form", "right, %", list(FORMS), {"": list(shares.values())}),
        _cells("Scores with Q = K, V", scores["Q = K, V"]),
        _cells("Scores with Q, K, V", scores["Q, K, V"]),
    )
    return LabResult(QUESTION, setup, (head, *rows), _answer(shares, lopsided), panels)


@torch.inference_mode()
def mean_scores(model: Reader, attention: Shared, n: int, seed: int) -> Tensor:
    """[letters, letters]: what a token with one letter scores a token with another, whatever their digits"""
    batch = _TASK.batch(n, seed)
    q, k, _ = attention.project(model.embed(batch))
    places = batch.src[..., 0].argsort(1)[..., None].expand(-1, -1, _WIDTH)
    return ScaledDot()(q.gather(1, places), k.gather(1, places)).mean(0)


def asymmetry(e: Tensor) -> float:
    """‖E − Eᵀ‖ / 2‖E‖, from 0 to 1: 0 where each scores the other as the other scores it"""
    return float((e - e.T).norm() / (2 * e.norm()))


def _cells(title: str, e: Tensor) -> MatrixPanel:
    return MatrixPanel(title, list(ALPHABET), list(ALPHABET), e.tolist())


def _answer(shares: dict[str, float], lopsided: dict[str, float]) -> tuple[str, str, str]:
    one, pairs, kept, three = shares.values()
    a, b = ALPHABET[0], ALPHABET[1]
    return (
        "The query is what a token looks for, the key what it is found by, the value what it hands over: asked for "
        f"the digit of the next letter, three matrices are right in {percent(three)} (chance: {percent(CHANCE)}).",
        f"If query and key are one, {a} scores {b} as {b} scores {a} (asymmetry {lopsided['Q = K, V']:.2f} against "
        f"{lopsided['Q, K, V']:.2f}) though only one of them wants the other, and {percent(pairs)} are right, "
        f"{against(pairs, three, 'with three')}.",
        f"If key and value are one, the same {_WIDTH} numbers must hold the letter and the digit: {percent(kept)} are "
        f"right, {against(kept, three, 'with three')}; with one matrix for everything it is {percent(one)}.",
    )
