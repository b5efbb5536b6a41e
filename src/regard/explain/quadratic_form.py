"""Scores as a quadratic form: only the product of W_Q and W_K matters (P24)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, column_numbers, matrix, max_difference, step
from regard.explain.formula import apply, brackets, expr, power, sub
from regard.explain.heads import AttentionCall
from regard.explain.model_input import ModelInput, unique_labels
from regard.nn.attention import SelfAttention, attend
from regard.nn.normalise import softmax
from regard.nn.scores import Bilinear

_X = ((1, 0), (0, 1), (1, 1))
_W_QUERY, _W_KEY, _W_VALUE = ((1, 2), (0, 1)), ((1, 0), (1, 1)), ((1, 0), (0, 2))
_CHANGE = ((2, 1), (1, 1))
_WORDS = ("x₁", "x₂", "x₃")

_PRODUCT = expr("B =", sub("W", "Q"), power(sub("W", "K"), "T"))
_SCORES = expr("Q", power("K", "T"), "= X", sub("W", "Q"), power(sub("W", "K"), "T"), power("X", "T"))
_OTHER = expr(
    power(sub("W", "Q"), "'"), "=", sub("W", "Q"), "R ,", power(sub("W", "K"), "'"), "=", sub("W", "K"),
    power(brackets(power("R", "−1")), "T"),
)  # fmt: skip
_ATTENTION = expr("Y =", apply("softmax", expr("X B", power("X", "T"))), brackets("X", sub("W", "V")))
_WITH_BIAS = expr("Q = X", sub("W", "Q"), "+", sub("b", "Q"), "= [ X 1 ] [", sub("W", "Q"), ";", sub("b", "Q"), "]")
_BIAS_NOTES = (
    "Of the terms with a bias, x W_Q b_K and b_Q · b_K are the same for all keys of a query, so softmax removes them; "
    "b_Q W_Kᵀ xᵀ remains, which prefers some keys for every query.",
)


def explain_quadratic_form() -> Explanation:
    x, wq, wk, wv, r = (torch.tensor(m, dtype=torch.float64) for m in (_X, _W_QUERY, _W_KEY, _W_VALUE, _CHANGE))
    b, scores = wq @ wk.T, x @ wq @ (x @ wk).T
    other_query, other_key = wq @ r, wk @ r.inverse().T
    y = softmax(x @ b @ x.T, None) @ (x @ wv)
    return Explanation(
        "Self-attention as a quadratic form",
        (
            step(
                "Three words, and the matrices for queries and keys.",
                matrix("X", x, _WORDS),
                matrix("W_Q", wq),
                matrix("W_K", wk),
            ),
            step("The scores need only the product of the two matrices.", _PRODUCT, matrix("B", b)),
            step(
                "Every score is a sum over products of two components of X: a quadratic form.",
                _SCORES,
                matrix("scores", scores, _WORDS, _WORDS),
                max_difference(scores, x @ b @ x.T),
            ),
            step(
                "It is quadratic: with 2 X, all scores are 4 times as large.",
                matrix("scores of 2 X", (2 * x) @ b @ (2 * x).T),
            ),
            step(
                "Other matrices with the same product, by any invertible matrix R, give the same scores.",
                _OTHER,
                matrix("R", r),
                matrix("W_Q′", other_query),
                matrix("W_K′", other_key),
                max_difference((x @ other_query) @ (x @ other_key).T, scores),
            ),
            step(
                "The whole of self-attention in terms of X, compared with `regard.attend`. (The scale √d is left out.)",
                _ATTENTION,
                matrix("W_V", wv),
                matrix("Y", y, _WORDS, column_numbers(y)),
                max_difference(attend(x @ wq, x @ wk, x @ wv, "dot")[0], y),
            ),
        ),
        "Neither W_Q nor W_K means anything alone: a model can exchange them for others with the same product W_Q "
        "W_Kᵀ. Two matrices are used because with d_k < d they have fewer numbers than B, which has rank d_k at most.",
    )


@torch.no_grad()
def explain_quadratic_form_on_model(model_input: ModelInput) -> Explanation:
    form = _HeadForm.of(model_input)
    x, b = form.x, form.query @ form.key.T
    scale = math.sqrt(form.width) if form.is_scaled else 1.0
    scores = x @ b @ x.T / scale
    generator = torch.Generator().manual_seed(1)
    r = torch.linalg.qr(torch.randn(form.width, form.width, generator=generator).double())[0] * 2
    other = x @ (form.query @ r) @ (x @ form.key @ r.inverse().T).T / scale
    biases = ", with their biases as one more row for a constant input of 1," if form.has_bias else ""
    return Explanation(
        f"One head as a quadratic form ({form.kind}, layer {model_input.layer}, head {model_input.head}): "
        f"{model_input.short_text}",
        (
            step(
                f"The matrices of this head{biases} have {form.query.shape[0]} rows and {form.width} columns; their "
                f"product B has rank {form.width} at most.",
                _WITH_BIAS if form.has_bias else _PRODUCT,
                matrix("B", b),
            ),
            step(
                f"The scores by this one matrix{', divided by √d_k' if form.is_scaled else ''}.",
                _SCORES,
                matrix("scores", scores, form.tokens, form.tokens),
                max_difference(scores, form.scores, "largest difference from the model's own queries and keys"),
            ),
            step(
                "The same with other matrices, W_Q R and W_K (R⁻¹)ᵀ, for an invertible matrix R drawn at random.",
                _OTHER,
                max_difference(form.query @ r, form.query, "change of W_Q"),
                max_difference(other, scores, "largest difference of the scores"),
            ),
        ),
        f"W_Q and W_K of this head have {2 * form.query.numel():,} numbers; B has {b.numel():,}. Any change of W_Q "
        "that a change of W_K undoes leaves the model as it is.",
        _BIAS_NOTES if form.has_bias else (),
    )


@dataclass(frozen=True)
class _HeadForm:
    """What the scores of one head of self-attention are computed from."""

    kind: str
    tokens: tuple[str, ...]
    x: Tensor
    """Input of the layer [T, D], with a last column of ones if there are biases"""
    query: Tensor
    """W_Q of the head [D, K], with the bias as the last row"""
    key: Tensor
    """W_K of the head [D, K], with the bias as the last row; times the matrix of a bilinear score"""
    scores: Tensor
    """Of the model's own queries and keys [T, T], without mask and ALiBi"""
    is_scaled: bool
    has_bias: bool

    @property
    def width(self) -> int:
        return self.query.shape[1]

    @classmethod
    def of(cls, model_input: ModelInput) -> "_HeadForm":
        call = AttentionCall.of(model_input)
        module, h = call.module, model_input.head
        head = model_input.head_record(call.kind)  # refuses a head that does not exist
        if call.kind == "cross":
            raise UserError("the scores of cross-attention come from two sequences; choose --kind encoder or decoder")
        if not isinstance(module, SelfAttention) or module.score_name not in ("dot", "scaled-dot", "bilinear"):
            raise UserError(f"the {module.score_name} score of this model is not a product of queries and keys alone")
        if module.positions == "rotary":
            raise UserError(
                "rotary positions turn q and k before their product, so W_Q W_Kᵀ alone does not give scores"
            )
        q, k = torch.from_numpy(head.q), torch.from_numpy(head.k)
        group = h // (module.n_heads // module.n_kv_heads)
        x = call.x[0].double()
        query, key = (
            _head_matrix(linear, i, q.shape[1]) for linear, i in ((module.query, h), (module.key_value, group))
        )
        if isinstance(module.score, Bilinear):  # q W k: its matrix is part of the product
            key = key @ module.score.weight.weight.T.double()
        has_bias = module.query.bias is not None
        if has_bias:
            x = torch.cat([x, torch.ones(len(x), 1).double()], 1)
        scores = module.score(q, k).double()
        is_scaled = module.score_name == "scaled-dot"
        return cls(call.kind, unique_labels(head.columns), x, query, key, scores, is_scaled, has_bias)


def _head_matrix(linear: torch.nn.Linear, head: int, width: int) -> Tensor:
    """Return the columns of W that belong to a head [D, width], with the bias as the last row; keys precede values."""
    rows = slice(head * width, (head + 1) * width)
    w = linear.weight[rows].T.double()
    return w if linear.bias is None else torch.cat([w, linear.bias[rows][None].double()])
