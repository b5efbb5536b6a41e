"""What becomes of a word among its neighbours: W3 and W4."""

from torch import Tensor

from regard.explain.explanation import Explanation, Step, difference, matrix, numbered, step
from regard.explain.formula import SOFTMAX, SUM, math, sub, total
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.explain.similarity import COSINE, DEVICE, FRUIT, vectors
from regard.nn.attention import AttentionTrace, attend_traced
from regard.nn.normalise import divide_by_sum, softmax
from regard.nn.scores import Cosine

SLIDESUM = (0.57, 0.43)
SLIDE_SOFTMAX = (0.15, 0.15, 0.5, 0.5)

_MIXED = math(sub("y", "i"), "=", total("j", sub("α", "i j"), sub("x", "j")))


def mixing() -> Explanation:
    x, device = vectors(*FRUIT), vectors(*DEVICE)
    by_sum, by_softmax = (attend_traced(x, x, x, "cosine", normalise=how) for how in ("sum", "softmax"))
    phone = attend_traced(device, device, device, "cosine", normalise="sum")
    rounded = divide_by_sum(by_sum.scores.round(decimals=2), None)
    return Explanation(
        "A new embedding: each word becomes a mixture of its sentence",
        (
            step(
                "“an apple and an orange”: how near the words are.", COSINE, matrix("cos", by_sum.scores, FRUIT, FRUIT)
            ),
            step(
                "Weights, first way: each row divided by its sum.",
                SUM,
                matrix("by the sum", by_sum.weights, FRUIT, FRUIT),
            ),
            step("With cosines rounded as on the slides.", None, matrix("rounded first", rounded, FRUIT, FRUIT)),
            _mixed(by_sum.output, FRUIT, "new, by the sum"),
            step("“an apple phone”, in the same way.", SUM, matrix("phone", phone.weights, DEVICE, DEVICE)),
            _mixed(phone.output, DEVICE, "new, phone"),
            step("Weights, second way: softmax.", SOFTMAX, matrix("by softmax", by_softmax.weights, FRUIT, FRUIT)),
            _mixed(by_softmax.output, FRUIT, "new, by softmax"),
        ),
        f"Orange becomes {_mixture(by_sum, 0, 3)} by the sum, and {_mixture(by_softmax, 0, 2)} by softmax, "
        "which leaves no word out: the same attention with another second step.",
        _slides(rounded, by_sum, by_softmax),
    )


def _slides(rounded: Tensor, by_sum: AttentionTrace, by_softmax: AttentionTrace) -> tuple[str, str]:
    """Where the slides are off"""
    printed = " and ".join(map(str, SLIDESUM))
    near, exact = (" and ".join(f"{w:.3f}" for w in row[:2].tolist()) for row in (rounded[0], by_sum.weights[0]))
    right = ", ".join(f"{w:.2f}" for w in by_softmax.weights[FRUIT.index("And")].tolist())
    return (
        f"By the sum, a slide prints {printed} for Orange; it is {near} with the cosine rounded to two places, and "
        f"{exact} without rounding.",
        f"By softmax, a slide prints {', '.join(map(str, SLIDE_SOFTMAX))} for And, which sum to "
        f"{number(sum(SLIDE_SOFTMAX))} and not to 1; it is {right}.",
    )


def mixing_of_own(own: ModelInput) -> Explanation:
    tokens, x = unique_labels(own.input_labels), own.vectors
    seen, similarities = attend_traced(x, x, x, "cosine"), Cosine()(x, x)
    return Explanation(
        f"A new embedding of each token: {own.quoted_text}",
        (
            step("How near the tokens' embeddings are.", COSINE, matrix("cos", similarities, tokens, tokens)),
            step("Weights by softmax.", SOFTMAX, matrix("by softmax", seen.weights, tokens, tokens)),
            _mixed(seen.output, tokens, "new"),
            step(
                "Step by step, and by the one function.", None, difference(seen.output, softmax(similarities, None) @ x)
            ),
        ),
        "Each token is now a mixture of all, with a little more of those that are like it.",
        ("Cosines of learnt vectors may be negative, so that dividing by the sum gives no weights; softmax does.",),
    )


def _mixed(values: Tensor, words: tuple[str, ...], name: str) -> Step:
    return step(
        "The new vectors: the old ones, weighted and added up.", _MIXED, matrix(name, values, words, numbered(values))
    )


def _mixture(seen: AttentionTrace, row: int, places: int) -> str:
    shares = zip(seen.weights[row].tolist(), FRUIT, strict=True)
    return " + ".join(f"{share:.{places}f} {word}" for share, word in shares if share)
