"""Label smoothing: every word gets a small part of the target probability (P7)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, matrix, max_difference, step
from regard.explain.formula import apply, brackets, expr, frac, sub, sum_over
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.train.loss import smoothed_cross_entropy

_WORDS = ("the", "green", "witch", "arrived", "</s>")
_LOGITS = (0.0, 1.0, 3.0, 0.5, 0.0)
_TRUE, _ALPHA = 2, 0.1
_SMOOTHED_TARGET = expr(sub("y", "ls"), "=", brackets("1 − α"), sub("y", "hot"), "+", frac("α", "K"))
_LOSS = expr("L = −", sum_over("k", sub("y", "k"), apply("log", sub("p", "k"))))


def explain_smoothing() -> Explanation:
    logits = torch.tensor([_LOGITS], dtype=torch.float64)
    p, one_hot = logits.softmax(-1)[0], F.one_hot(torch.tensor(_TRUE), len(_WORDS)).double()
    by_formula = (1 - _ALPHA) * one_hot + _ALPHA / len(one_hot)
    [y], [loss], [nll] = _targets_and_losses(logits, torch.tensor([_TRUE]), _ALPHA)
    return Explanation(
        "Label smoothing: every word gets a small part of the target probability",
        (
            step("The target without smoothing: the true word.", matrix("y_hot", one_hot, (), _WORDS)),
            step("The probabilities that a model predicts.", matrix("p", p, (), _WORDS)),
            step(
                f"The smoothed target for α = {_ALPHA} and K = {len(one_hot)} words, computed from the gradient of the "
                "library's loss.",
                _SMOOTHED_TARGET,
                matrix("y_ls", y, (), _WORDS),
                max_difference(y, by_formula, "largest difference from the rule"),
            ),
            step(
                "The loss with the smoothed target.",
                _LOSS,
                matrix("smoothed loss", loss),
                matrix("plain loss", nll),
                max_difference(loss, -(by_formula * p.log()).sum(), "largest difference from the formula"),
            ),
            step(
                "The gradient of the loss with respect to the logits; training moves the logits against it.",
                expr("p −", sub("y", "ls")),
                matrix("p − y_ls", p - y, (), _WORDS),
            ),
        ),
        f"The target is {format_number(float(y[_TRUE]))} for the true word and {format_number(float(y[0]))} for every "
        f"other word; the loss is {format_number(float(loss))} instead of {format_number(float(nll))}.",
    )


def explain_smoothing_on_model(model_input: ModelInput) -> Explanation:
    if not model_input.pipeline.generates:
        raise UserError("this model predicts labels; label smoothing is explained on models that generate tokens")
    alpha, targets = model_input.recipe.train.label_smoothing, model_input.batch.tgt_out[0].clone()
    with torch.no_grad():
        logits = model_input.model(model_input.batch)[0].double()
    p = logits.softmax(-1).gather(1, targets[:, None]).squeeze(1)
    y, losses, nlls = _targets_and_losses(logits, targets, alpha)
    loss, nll = smoothed_cross_entropy(logits[None], targets[None], alpha)
    true_target, other_target = float(y[0, targets[0]]), alpha / logits.shape[-1]
    return Explanation(
        f"Label smoothing over the model's vocabulary: {model_input.output_text}",
        (
            step(
                f"α = {alpha:g} and K = {logits.shape[-1]:,} tokens.",
                _SMOOTHED_TARGET,
                matrix("y_ls of the true token", true_target),
                matrix("y_ls of every other token", other_target),
            ),
            step(
                "The probability that the model gives to each true token, and the losses.",
                _LOSS,
                matrix(
                    "token",
                    torch.stack([p, nlls, losses], 1),
                    model_input.target_labels,
                    ("p", "plain", "smoothed"),
                ),
            ),
            step(
                "All tokens at once, as in training.",
                matrix("smoothed loss", loss),
                matrix("plain loss", nll),
                max_difference(losses.sum(), loss),
            ),
        ),
        f"The target of the true tokens is {format_number(true_target)}; the model gives them "
        f"{format_number(float(p.mean()))} on average. The loss is {format_number(float(loss))} instead of "
        f"{format_number(float(nll))}.",
    )


def _targets_and_losses(logits: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the smoothed target, the smoothed loss and the plain loss of each row.

    The gradient of the library's loss with respect to the logits is p − y_ls, which gives y_ls.
    """
    ys, losses, nlls = [], [], []
    for row, target in zip(logits, targets, strict=True):
        z = row.clone().requires_grad_()
        loss, nll = smoothed_cross_entropy(z[None, None], target[None, None], alpha)
        [gradient] = torch.autograd.grad(loss, z)
        ys.append(row.softmax(-1) - gradient)
        losses.append(loss.detach())
        nlls.append(nll)
    return torch.stack(ys), torch.stack(losses), torch.stack(nlls)
