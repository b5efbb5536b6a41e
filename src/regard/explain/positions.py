"""How a model knows where a word is in its sentence: W7 and P1."""

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, GridPlot, Step, matrix, max_difference, step
from regard.explain.formula import apply, expr, frac, power
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.nn.attention import SelfAttention, attend
from regard.nn.positions import LearnedPositions, SinusoidalPositions, alibi, distances, rotate, sinusoid

_WORDS, _REVERSED = ("I", "love", "you"), [2, 1, 0]
_D = 4
_PLOT_SIZE = (100, 128)  # positions, dimensions

_ANGLE = frac("pos", power("10000", "2i/d"))
_SINUSOID = expr(
    apply("PE", "pos", "2i"), "=", apply("sin", _ANGLE), ",", apply("PE", "pos", "2i+1"), "=", apply("cos", _ANGLE)
)


def explain_positions() -> Explanation:
    table = sinusoid(torch.arange(len(_WORDS)), _D)
    x = torch.randn(3, _D, generator=torch.Generator().manual_seed(1)).double()
    wavelengths = 2 * torch.pi * 10000 ** (torch.arange(0, _D, 2) / _D)
    rows = [f"[{', '.join(format_number(value) for value in row)}]" for row in table.tolist()]
    plotted = sinusoid(torch.arange(_PLOT_SIZE[0]), _PLOT_SIZE[1]).numpy()
    return Explanation(
        "Positions of “I love you” as sines and cosines",
        (
            step(
                f"With d = {_D} there are two waves. The wavelength is the number of positions after which a wave "
                "repeats.",
                expr("2π ·", power("10000", "2i/d")),
                matrix("wavelength", wavelengths, (), ("i = 0", "i = 1")),
            ),
            step(
                "Even dimensions are sines, odd ones are cosines.",
                _SINUSOID,
                matrix("PE", table, _WORDS, _dimension_numbers(table)),
            ),
            step(
                "Each position vector is added to the embedding of its word (drawn at random here).",
                expr("X + PE"),
                matrix("X + PE", x + table, _WORDS, _dimension_numbers(table)),
            ),
            *_reversal_steps(x, table),
        ),
        f"Position 0 is {rows[0]}, position 1 is {rows[1]}, position 2 is {rows[2]}. Without positions “I love you” "
        "and “you love I” give the same set of outputs; with positions they do not.",
        (
            f"A slide shows zeros for position 0; but cos 0 = 1, so it is {rows[0]}.",
            "For “love”, a slide divides by 10000^(2/4) in the first pair of dimensions too; there the divisor is "
            f"10000^0 = 1, so position 1 starts with sin 1 and cos 1: {rows[1]}.",
        ),
        GridPlot(plotted, "dimension", "position", limits=(-1.0, 1.0)),
    )


def _reversal_steps(x: Tensor, table: Tensor) -> tuple[Step, Step]:
    """Attend to the words in reverse order, without and with positions."""
    plain, plain_reversed = (attend(m, m, m)[0] for m in (x, x[_REVERSED]))
    with_positions, with_positions_reversed = (attend(m, m, m)[0] for m in (x + table, x[_REVERSED] + table))
    reversed_words = [_WORDS[i] for i in _REVERSED]
    return (
        step(
            "Without positions, attention gives “you love I” the outputs of “I love you” in reverse order.",
            matrix("I love you", plain, _WORDS, _dimension_numbers(x)),
            matrix("you love I", plain_reversed, reversed_words, _dimension_numbers(x)),
            max_difference(plain_reversed, plain[_REVERSED]),
        ),
        step(
            "With positions the outputs are different.",
            max_difference(with_positions_reversed, with_positions[_REVERSED], "largest difference with positions"),
        ),
    )


def explain_positions_on_model(model_input: ModelInput) -> Explanation:
    part = model_input.text_reader
    embedding = getattr(part, "embedding", None)
    if embedding is None:
        raise UserError("this model has no positions: it is recurrent and reads its tokens in order")
    if embedding.positions is not None:
        return _explain_added(model_input, embedding.positions)
    mixer = part.layers[0].mixer
    if getattr(mixer, "positions", "none") == "none":
        raise UserError("this model was trained without positions (positions: none)")
    return _explain_relative(model_input, mixer)


@torch.no_grad()
def _explain_added(model_input: ModelInput, positions: SinusoidalPositions | LearnedPositions) -> Explanation:
    """Explain position vectors that are combined with the embeddings."""
    tokens, embedding = model_input.input_labels, model_input.text_reader.embedding
    ids = torch.tensor(model_input.input_ids)
    table, x = positions(len(tokens)), embedding.tokens(ids) * embedding.scale
    combined = embedding(ids[None])[0]
    is_sinusoidal, dimensions = isinstance(positions, SinusoidalPositions), _dimension_numbers(table)
    plotted = positions(min(_PLOT_SIZE[0], len(positions.table))).numpy()
    largest = float(abs(plotted).max())
    return Explanation(
        f"The model's {'sinusoidal' if is_sinusoidal else 'learned'} positions: {model_input.short_text}",
        (
            step(
                "One vector per position.",
                _SINUSOID if is_sinusoidal else None,
                matrix("PE", table, tokens, dimensions),
            ),
            step("The embeddings of the tokens, times √d.", matrix("√d E", x, tokens, dimensions)),
            step(
                "Combined, they are the input of the first layer.",
                matrix("input", combined, tokens, dimensions),
                max_difference(combined, embedding.join(x, table), "largest difference from the model's own run"),
            ),
        ),
        f"On average a position vector has length {_mean_length(table)}, a token vector {_mean_length(x)}.",
        plot=GridPlot(plotted, "dimension", "position", limits=(-largest, largest)),
    )


def _explain_relative(model_input: ModelInput, attention: SelfAttention) -> Explanation:
    """Explain positions that change the scores, where only the distance of two tokens matters."""
    tokens = model_input.input_labels
    n, positions = len(tokens), attention.positions
    if positions == "alibi":
        text = "Each score is lowered in proportion to the distance of the two tokens; each head has its own slope."
        name, scores = (
            "bias of head 0",
            alibi(attention.n_heads, distances(n, n, torch.device("cpu")), torch.float32)[0],
        )
    else:
        text = (
            "Queries and keys are rotated by an angle that grows with the position; here the same vector, (1, 1, …), "
            "is used at every position."
        )
        rotated = rotate(torch.ones(n, attention.widths[0]), attention.rotation(torch.arange(n), torch.float32))
        name, scores = "rotated q · rotated k", rotated @ rotated.T
    neighbours = f": neighbours have {format_number(float(scores[0, 1]))} at every position" if n > 1 else ""
    return Explanation(
        f"The model's {positions} positions: {model_input.short_text}",
        (step(text, matrix(name, scores, tokens, tokens)),),
        f"Nothing is added to the embeddings; only the distance of two tokens matters{neighbours}.",
    )


def _dimension_numbers(x: Tensor) -> tuple[str, ...]:
    return tuple(str(i) for i in range(x.shape[1]))


def _mean_length(x: Tensor) -> str:
    return format_number(float(x.norm(dim=1).mean()))
