"""Relative offsets: PE(pos + k) is a fixed rotation of PE(pos), the same at every position (P25)."""

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, GridPlot, Step, matrix, max_difference, step
from regard.explain.formula import apply, expr, frac, power, sub
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.nn.positions import SinusoidalPositions, sinusoid

_D, _N, _K = 4, 6, 3
_PLOT_SIZE, _PLOT_WIDTH = 64, 128
_MAX_SHOWN = 8  # dimensions of a model's rotation that are shown

_FREQUENCY = expr(sub("ω", "i"), "=", frac("1", power("10000", "2i/d")))
_SUM_OF_ANGLES = expr(
    apply("sin", "ω ( pos + k )"), "=", apply("cos", "ω k"), apply("sin", "ω pos"), "+", apply("sin", "ω k"),
    apply("cos", "ω pos"),
)  # fmt: skip
_ROTATION = expr(apply("PE", "pos + k"), "=", sub("M", "k"), apply("PE", "pos"))
_PRODUCT = expr(
    apply("PE", "pos"), "·", apply("PE", "pos + k"), "=", sub("Σ", "i"), apply("cos", expr(sub("ω", "i"), "k"))
)


def explain_offsets() -> Explanation:
    table = sinusoid(torch.arange(_N + _K), _D)
    return Explanation(
        "Offsets: PE(pos + k) is a rotation of PE(pos)",
        (
            step(
                f"With d = {_D} there are two pairs of dimensions, each with its own frequency.",
                _FREQUENCY,
                matrix("ω", _frequencies(_D), (), ("pair 0", "pair 1")),
            ),
            *_rotation_steps(table, _K, _N),
            _product_step(table, _N),
        ),
        f"One matrix moves every position by {_K}: it depends on k, not on the position. So a head can learn to look "
        "k words back by a linear map, wherever it is.",
        plot=_product_plot(sinusoid(torch.arange(_PLOT_SIZE), _PLOT_WIDTH)),
    )


def explain_offsets_on_model(model_input: ModelInput) -> Explanation:
    embedding = getattr(model_input.text_reader, "embedding", None)
    positions = getattr(embedding, "positions", None)
    if not isinstance(positions, SinusoidalPositions):
        raise UserError(
            "this model has no sinusoidal positions, and others do not have this property; "
            "`regard explain positions` shows what it has"
        )
    n = len(model_input.input_ids)
    table = positions(n + _K).double()
    d = positions.d_model
    return Explanation(
        f"Offsets of the model's sinusoidal positions: {model_input.short_text}",
        (
            step(
                f"With d = {d} there are {d // 2} pairs of dimensions, each with its own frequency.",
                _FREQUENCY,
                matrix("ω", _frequencies(d)),
            ),
            *_rotation_steps(table, _K, n),
            _product_step(table, n),
        ),
        f"One matrix moves all {n} positions of this sentence by {_K}. The model stores positions in single precision, "
        "hence the small differences.",
        plot=_product_plot(positions(_PLOT_SIZE).double()),
    )


def _frequencies(d: int) -> Tensor:
    return 10000 ** (-torch.arange(0, d - d % 2, 2).double() / d)


def _rotation(d: int, k: int) -> Tensor:
    """M_k, which turns each pair (sin, cos) by the angle ωᵢ k; a last dimension without a partner is left out."""
    angles = _frequencies(d) * k
    pairs = [
        torch.stack([torch.stack([c, s]), torch.stack([-s, c])])
        for s, c in zip(angles.sin(), angles.cos(), strict=True)
    ]
    return torch.block_diag(*pairs)


def _rotation_steps(table: Tensor, k: int, n: int) -> list[Step]:
    """Rotate the first n rows of a table of positions, and compare with the rows k further on."""
    m = _rotation(table.shape[1], k)
    table = table[:, : len(m)]
    rotated, shifted = table[:n] @ m.T, table[k : k + n]
    dimensions = [str(i) for i in range(len(m))]
    return [
        step(
            "The sine of a sum of angles is a mixture of sine and cosine; so is the cosine.",
            _SUM_OF_ANGLES,
        ),
        step(
            f"For all pairs at once: the matrix that moves a position by k = {k}. It turns each pair by the angle ω k.",
            matrix("Mₖ", m[:_MAX_SHOWN, :_MAX_SHOWN], dimensions[:_MAX_SHOWN], dimensions[:_MAX_SHOWN]),
        ),
        step(
            f"Applied to positions 0 to {n - 1}, it gives positions {k} to {n - 1 + k}.",
            _ROTATION,
            matrix("PE(pos)", table[:n], [f"pos {i}" for i in range(n)], dimensions),
            matrix("M PE(pos)", rotated, [f"pos {i}" for i in range(n)], dimensions),
            matrix("PE(pos + k)", shifted, [f"pos {i + k}" for i in range(n)], dimensions),
            max_difference(rotated, shifted),
        ),
    ]


def _product_step(table: Tensor, n: int) -> Step:
    table = table[:, : len(_rotation(table.shape[1], 0))]
    products = table[:n] @ table[:n].T
    offsets = range(n)
    expected = (_frequencies(table.shape[1]) * torch.arange(n)[:, None]).cos().sum(1)
    by_formula = torch.stack([torch.stack([expected[abs(i - j)] for j in offsets]) for i in offsets])
    names = [f"pos {i}" for i in offsets]
    return step(
        "A rotation keeps lengths and angles, so the dot product of two positions depends on their distance only: "
        f"every position has {format_number(float(products[0, 0]))} with itself.",
        _PRODUCT,
        matrix("PE · PE", products, names, names),
        max_difference(products, by_formula, "largest difference from the formula"),
    )


def _product_plot(table: Tensor) -> GridPlot:
    products = table @ table.T
    limit = float(products.max())
    return GridPlot(products.numpy(), "position", "position", limits=(0.0 if products.min() >= 0 else -limit, limit))
