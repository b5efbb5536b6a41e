"""Equivariance with the numbers that a slide prints: [1, 2, 3, 4] becomes [6, 7, 8, 9] (W13)."""

import torch
from torch import Tensor

from regard.explain.explanation import Step, matrix, max_difference, step
from regard.explain.formula import expr, sub, sum_over
from regard.nn.attention import attend

_X, _Y = (1.0, 2.0, 3.0, 4.0), (6.0, 7.0, 8.0, 9.0)
_LARGEST_PRODUCT, _N_PRODUCTS = 3.0, 301  # the products w_Q w_K that are tried
_W_VALUE = 2.0

_SCALAR_SCORES = expr(sub("e", "i j"), "=", sub("w", "Q"), sub("w", "K"), sub("x", "i"), sub("x", "j"))
_RESIDUAL_LAYER = expr(sub("y", "i"), "=", sub("x", "i"), "+", sum_over("j", sub("α", "i j"), "· 2", sub("x", "j")))


def printed_steps() -> list[Step]:
    """Show the slide's numbers, that one head cannot give them, and a layer that does."""
    x, y = (torch.tensor(values, dtype=torch.float64)[:, None] for values in (_X, _Y))
    layer, layer_reversed = _residual_layer(x), _residual_layer(x.flip(0))
    return [
        step(
            "A slide shows the rule with single numbers as words: reversing X reverses A(X). They are schematic.",
            matrix("X (slide)", x.T),
            matrix("A(X) (slide)", y.T),
            matrix("X′ (slide)", x.flip(0).T),
            matrix("A(X′) (slide)", y.flip(0).T),
        ),
        step(
            "No single head without bias gives them. Its weights are the softmax of w_Q w_K x_i x_j; as x_i grows, its "
            "output rises in smaller and smaller steps, because it cannot pass w_V · 4, but 6, 7, 8, 9 rise in equal "
            "steps. This is the closest such head, by least squares.",
            _SCALAR_SCORES,
            matrix("closest head", _closest_head(x, y).T),
        ),
        step(
            "A layer that does: all weights are 1/4 (W_Q = 0), W_V = 2, so every word gets 2 · 2.5 = 5, and a residual "
            "connection adds its own number.",
            _RESIDUAL_LAYER,
            matrix("layer(X)", layer.T),
            matrix("layer(X′)", layer_reversed.T),
            max_difference(layer, y, "largest difference from the slide"),
            max_difference(layer_reversed, layer.flip(0), "largest difference from the reversed output"),
        ),
    ]


def _closest_head(x: Tensor, y: Tensor) -> Tensor:
    """Return the output of the scalar head, of those tried, that is closest to y; w_V is the best for each."""
    outputs = []
    for product in torch.linspace(0, _LARGEST_PRODUCT, _N_PRODUCTS, dtype=torch.float64):
        output = attend(product * x, x, x)[0]
        outputs.append((output * y).sum() / (output**2).sum() * output)
    return min(outputs, key=lambda output: float(((output - y) ** 2).sum()))


def _residual_layer(x: Tensor) -> Tensor:
    return x + attend(torch.zeros_like(x), x, _W_VALUE * x)[0]
