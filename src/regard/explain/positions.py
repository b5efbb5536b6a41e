"""Where a word stands: W7 and P1."""

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, GridPlot, Step, difference, matrix, step
from regard.explain.formula import frac, math, of, power
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.nn.attention import attend
from regard.nn.positions import LearnedPositions, SinusoidalPositions, alibi, rotate, sinusoid

_WORDS, _ORDER = ("I", "love", "you"), [2, 1, 0]
_D = 4
_PICTURE = (100, 128)  # positions, dimensions

_ANGLE = frac("pos", power("10000", "2i/d"))
_SINE = math(of("PE", "pos", "2i"), "=", of("sin", _ANGLE), ",", of("PE", "pos", "2i+1"), "=", of("cos", _ANGLE))


def positions() -> Explanation:
    table = sinusoid(torch.arange(len(_WORDS)), _D)
    x = torch.randn(3, _D, generator=torch.Generator().manual_seed(1)).double()
    wavelengths = 2 * torch.pi * 10000 ** (torch.arange(0, _D, 2) / _D)
    rows = [f"[{', '.join(number(value) for value in row)}]" for row in table.tolist()]
    return Explanation(
        "Positions of “I love you” as sines and cosines",
        (
            step(
                f"For d = {_D} there are two waves; each turns once in so many places.",
                math("2π ·", power("10000", "2i/d")),
                matrix("wavelength", wavelengths, (), ("i = 0", "i = 1")),
            ),
            step(
                "Even dimensions are sines, odd ones cosines.", _SINE, matrix("PE", table, _WORDS, _dimensions(table))
            ),
            step(
                "Each is added to its word's embedding (drawn at random here).",
                math("X + PE"),
                matrix("X + PE", x + table, _WORDS, _dimensions(table)),
            ),
            *_turned(x, table),
        ),
        f"Place 0 is {rows[0]}, place 1 is {rows[1]}, place 2 is {rows[2]}. Without them “I love you” and “you love I” "
        "give the same set of outputs; with them they do not.",
        (f"A slide prints zeros for place 0; cos 0 is 1, so that it is {rows[0]}.",),
        GridPlot(sinusoid(torch.arange(_PICTURE[0]), _PICTURE[1]).numpy(), "dimension", "position", limits=(-1.0, 1.0)),
    )


def _turned(x: Tensor, table: Tensor) -> tuple[Step, Step]:
    """The same words the other way round, without and with positions"""
    plain, turned = (attend(m, m, m)[0] for m in (x, x[_ORDER]))
    placed, placed_turned = (attend(m, m, m)[0] for m in (x + table, x[_ORDER] + table))
    back = [_WORDS[i] for i in _ORDER]
    return (
        step(
            "Without positions, attention gives “you love I” the outputs of “I love you” in another order.",
            None,
            matrix("I love you", plain, _WORDS, _dimensions(x)),
            matrix("you love I", turned, back, _dimensions(x)),
            difference(turned, plain[_ORDER]),
        ),
        step(
            "With positions the outputs are others.",
            None,
            difference(placed_turned, placed[_ORDER], "largest difference with positions"),
        ),
    )


def positions_of_own(own: ModelInput) -> Explanation:
    part = own.text_reader
    embedding = getattr(part, "embedding", None)
    if embedding is None:
        raise UserError("this model has no positions: a recurrent one reads its tokens in order")
    if embedding.positions is not None:
        return _added(own, embedding.positions)
    mixer = part.layers[0].mixer
    if getattr(mixer, "positions", "none") == "none":
        raise UserError("this model was trained without positions (positions: none)")
    return _relative(own, mixer.positions, mixer.n_heads)


@torch.no_grad()
def _added(own: ModelInput, kind: SinusoidalPositions | LearnedPositions) -> Explanation:
    tokens, embedding = unique_labels(own.input_labels), own.text_reader.embedding
    table = kind(0, len(tokens))
    x = embedding.tokens(torch.tensor(own.input_ids)) * embedding.scale
    read = embedding(torch.tensor([own.input_ids]))[0]
    sines, dims = isinstance(kind, SinusoidalPositions), _dimensions(table)
    many = kind(0, min(_PICTURE[0], len(kind.table))).numpy()
    most = float(abs(many).max())
    return Explanation(
        f"The model's {'sinusoidal' if sines else 'learned'} positions: {own.quoted_text}",
        (
            step("One vector a place.", _SINE if sines else None, matrix("PE", table, tokens, dims)),
            step("The tokens' embeddings, times √d.", None, matrix("√d E", x, tokens, dims)),
            step(
                "Joined, they are what the first layer reads.",
                None,
                matrix("read", read, tokens, dims),
                difference(read, embedding.join(x, table), "largest difference from the model's own run"),
            ),
        ),
        f"A place's vector is {_length(table)} long on average, a token's {_length(x)}.",
        picture=GridPlot(many, "dimension", "position", limits=(-most, most)),
    )


def _relative(own: ModelInput, kind: str, n_heads: int) -> Explanation:
    """Positions that act on the scores, of which only the distance counts"""
    tokens = unique_labels(own.input_labels)
    n = len(tokens)
    if kind == "alibi":
        says = "A score loses the more, the farther apart two tokens stand; each head has a slope of its own."
        name, scores = "bias of head 0", alibi(n_heads, n, n, torch.zeros(1))[0]
    else:
        says = (
            "Queries and keys are turned by an angle that grows with the place; here one vector, (1, 1, …), everywhere."
        )
        turned = rotate(torch.ones(n, own.model.d_model // n_heads))
        name, scores = "turned q · turned k", turned @ turned.T
    apart = f": neighbours have {number(float(scores[0, 1]))} wherever they stand" if n > 1 else ""
    return Explanation(
        f"The model's {kind} positions: {own.quoted_text}",
        (step(says, None, matrix(name, scores, tokens, tokens)),),
        f"Nothing is added to the embeddings; only how far apart two tokens stand counts{apart}.",
    )


def _dimensions(x: Tensor) -> tuple[str, ...]:
    return tuple(str(i) for i in range(x.shape[1]))


def _length(x: Tensor) -> str:
    return number(float(x.norm(dim=1).mean()))
