"""A little of the truth for every word: P7."""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, difference, matrix, step
from regard.explain.formula import brackets, frac, math, of, sub, total
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.train.loss import smoothed_cross_entropy

_WORDS = ("the", "green", "witch", "arrived", "</s>")
_LOGITS = (0.0, 1.0, 3.0, 0.5, 0.0)
_TRUE, _ALPHA = 2, 0.1
_SMOOTH = math(sub("y", "ls"), "=", brackets("1 − α"), sub("y", "hot"), "+", frac("α", "K"))
_LOSS = math("L = −", total("k", sub("y", "k"), of("log", sub("p", "k"))))


def smoothing() -> Explanation:
    logits = torch.tensor([_LOGITS], dtype=torch.float64)
    p, hot = logits.softmax(-1)[0], F.one_hot(torch.tensor(_TRUE), len(_WORDS)).double()
    by_rule = (1 - _ALPHA) * hot + _ALPHA / len(hot)
    [y], [loss], [nll] = _smoothed(logits, torch.tensor([_TRUE]), _ALPHA)
    return Explanation(
        "Label smoothing: a little of the truth goes to every word",
        (
            step("The true word.", None, matrix("y_hot", hot, (), _WORDS)),
            step("What a model says.", None, matrix("p", p, (), _WORDS)),
            step(
                f"The truth with α = {_ALPHA} and K = {len(hot)} words, as the gradient of the library's loss has it.",
                _SMOOTH,
                matrix("y_ls", y, (), _WORDS),
                difference(y, by_rule, "largest difference from the rule"),
            ),
            step(
                "The loss against it.",
                _LOSS,
                matrix("smoothed loss", loss),
                matrix("plain loss", nll),
                difference(loss, -(by_rule * p.log()).sum(), "largest difference from the formula"),
            ),
            step(
                "Its gradient: what a step of training takes away.",
                math("p −", sub("y", "ls")),
                matrix("p − y_ls", p - y, (), _WORDS),
            ),
        ),
        f"The true word is asked for with {number(float(y[_TRUE]))}, every other with {number(float(y[0]))}; the loss "
        f"is {number(float(loss))} in place of {number(float(nll))}.",
    )


def smoothing_of_own(own: ModelInput) -> Explanation:
    if not own.pipeline.generates:
        raise UserError("this model gives labels; smoothing is shown on models that say tokens")
    alpha, targets = own.recipe.train.label_smoothing, own.batch.tgt_out[0].clone()
    with torch.no_grad():
        logits = own.model(own.batch)[0].double()
    p = logits.softmax(-1).gather(1, targets[:, None]).squeeze(1)
    y, losses, nlls = _smoothed(logits, targets, alpha)
    loss, nll = smoothed_cross_entropy(logits[None], targets[None], alpha)
    true, other = float(y[0, targets[0]]), alpha / logits.shape[-1]
    return Explanation(
        f"Label smoothing with the model's own vocabulary: {own.pipeline.tgt_tokenizer.decode(own.output_ids)}",
        (
            step(
                f"α = {alpha:g} and K = {logits.shape[-1]:,} tokens.",
                _SMOOTH,
                matrix("y_ls of the true token", true),
                matrix("y_ls of every other", other),
            ),
            step(
                "What the model gives to each true token, and the losses.",
                _LOSS,
                matrix(
                    "token",
                    torch.stack([p, nlls, losses], 1),
                    unique_labels(own.target_tokens),
                    ("p", "plain", "smoothed"),
                ),
            ),
            step(
                "All tokens in one go, as in training.",
                None,
                matrix("smoothed loss", loss),
                matrix("plain loss", nll),
                difference(losses.sum(), loss),
            ),
        ),
        f"Of the true tokens {number(true)} is asked for, and {number(float(p.mean()))} is given on average. The loss "
        f"is {number(float(loss))} in place of {number(float(nll))}.",
    )


def _smoothed(logits: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row: y_ls, since the library's gradient is p − y_ls, the smoothed loss and the plain one"""
    y, losses, nlls = [], [], []
    for row, target in zip(logits, targets, strict=True):
        z = row.clone().requires_grad_()
        loss, nll = smoothed_cross_entropy(z[None, None], target[None, None], alpha)
        [gradient] = torch.autograd.grad(loss, z)
        y.append(row.softmax(-1) - gradient)
        losses.append(loss.detach())
        nlls.append(nll)
    return torch.stack(y), torch.stack(losses), torch.stack(nlls)
