"""Lab: one attention head whose query, key and value share projection matrices, or have one each."""

import torch
from torch import Tensor, nn

from regard.labs.lookup_task import ALPHABET, CHANCE, DESCRIPTION, LookupModel, LookupTask, correct_answers
from regard.labs.result import BarPanel, Column, LabResult, MatrixPanel, ResultTable, compare_shares
from regard.labs.training import Budget, heldout_seed, seeded, train_model
from regard.nn.attention import attend
from regard.nn.scores import ScaledDot

QUESTION = "What exactly are Q, K and V, and why do they exist?"
FULL, QUICK = Budget(1000, 500), Budget(20, 50)
FORMS = {"Q = K = V": (0, 0, 0), "Q = K, V": (0, 0, 1), "Q, K = V": (0, 1, 1), "Q, K, V": (0, 1, 2)}
"""Name → indices of the matrices that give the query, the key and the value."""
_D_MODEL, _WIDTH = 16, 3
_COLUMNS = {
    "matrices": Column("matrices", ".0f"),
    "correct": Column("correct", ".1%"),
    "asymmetry": Column("asymmetry of the scores", ".2f"),
}
_TASK = LookupTask((1,))


class SharedProjections(nn.Module):
    """One head whose projections may share matrices; as usual narrower than the tokens, so it cannot copy them."""

    def __init__(self, form: tuple[int, int, int]) -> None:
        super().__init__()
        self.form = form
        self.projections = nn.ModuleList(nn.Linear(_D_MODEL, _WIDTH, bias=False) for _ in set(form))
        self.out = nn.Linear(_WIDTH, _D_MODEL)

    def project(self, x: Tensor) -> list[Tensor]:
        """Return query, key and value."""
        return [self.projections[index](x) for index in self.form]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.project(x)
        y, weights = attend(q, k, v)
        return self.out(y), weights


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    scores: dict[str, Tensor] = {}
    for name, form in FORMS.items():
        with seeded(seed):
            attention = SharedProjections(form)
            model = LookupModel(_D_MODEL, 1, attention)
        train_model(model, _TASK, budget.updates, lr=5e-3, seed=seed)
        correct = correct_answers(model, _TASK, budget.samples, heldout_seed(seed))
        scores[name] = mean_scores(model, attention, budget.samples, heldout_seed(seed))
        rows[(name,)] = {
            "matrices": len(set(form)),
            "correct": float(correct.float().mean()),
            "asymmetry": asymmetry(scores[name]),
        }
    table = ResultTable(("projections",), _COLUMNS, rows)
    setup = (
        f"{DESCRIPTION} For every token the model has to find the digit of the next letter of the alphabet. "
        f"{budget.updates:,} updates train one head of width {_WIDTH} whose query, key and value share projection "
        "matrices or have one each."
    )
    panels = (
        BarPanel("Shared projections", "projections", "correct, %", list(FORMS), {"": table.values("correct")}),
        _score_panel("Scores with Q = K, V", scores["Q = K, V"]),
        _score_panel("Scores with Q, K, V", scores["Q, K, V"]),
    )
    return LabResult(QUESTION, setup, table, _answer(table), panels)


@torch.inference_mode()
def mean_scores(model: LookupModel, attention: SharedProjections, n: int, seed: int) -> Tensor:
    """Return the mean score [letters, letters] between a query token and a key token with the given letters."""
    batch = _TASK.batch(n, seed)
    q, k, _ = attention.project(model.embed(batch))
    positions = batch.src[..., 0].argsort(1)[..., None].expand(-1, -1, _WIDTH)
    return ScaledDot()(q.gather(1, positions), k.gather(1, positions)).mean(0)


def asymmetry(scores: Tensor) -> float:
    """Return ‖E − Eᵀ‖ / 2‖E‖ of the scores E: 0 if they are symmetric, 1 if they are antisymmetric."""
    return float((scores - scores.T).norm() / (2 * scores.norm()))


def _score_panel(title: str, scores: Tensor) -> MatrixPanel:
    return MatrixPanel(title, list(ALPHABET), list(ALPHABET), scores.tolist())


def _answer(table: ResultTable) -> tuple[str, str, str]:
    all_shared, query_key, key_value, separate = table.values("correct")
    a, b = ALPHABET[0], ALPHABET[1]
    return (
        "The query is what a token looks for, the key is what other tokens find it by, the value is what it passes "
        f"on: with three matrices {separate:.1%} of the digits are correct (chance: {CHANCE:.1%}).",
        f"If query and key share a matrix, {a} scores {b} as high as {b} scores {a} (asymmetry "
        f"{table.value('asymmetry', 'Q = K, V'):.2f} compared with {table.value('asymmetry', 'Q, K, V'):.2f}), "
        f"although only {a} needs {b}: {query_key:.1%} are correct, "
        f"{compare_shares(query_key, separate, 'with three')}.",
        f"If key and value share a matrix, the same {_WIDTH} numbers must encode both the letter and the digit: "
        f"{key_value:.1%} are correct, {compare_shares(key_value, separate, 'with three')}. With one matrix for all "
        f"three, {all_shared:.1%} are.",
    )
