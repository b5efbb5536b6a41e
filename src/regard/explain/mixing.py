"""How a word becomes a mixture of the words around it: W3 and W4."""

from torch import Tensor

from regard.explain.explanation import Explanation, Step, column_numbers, matrix, max_difference, step
from regard.explain.formula import DIVIDE_BY_SUM, SOFTMAX, expr, sub, sum_over
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.explain.similarity import COSINE, DEVICE, FRUIT, word_vectors
from regard.nn.attention import AttentionTrace, attend_traced
from regard.nn.normalise import divide_by_sum, softmax
from regard.nn.scores import Cosine

_SLIDE_BY_SUM = (0.57, 0.43)
_SLIDE_BY_SOFTMAX = (0.15, 0.15, 0.5, 0.5)

_MIXTURE = expr(sub("y", "i"), "=", sum_over("j", sub("α", "i j"), sub("x", "j")))


def explain_mixing() -> Explanation:
    x, device = word_vectors(*FRUIT), word_vectors(*DEVICE)
    by_sum, by_softmax = (attend_traced(x, x, x, "cosine", normalise=how) for how in ("sum", "softmax"))
    phone = attend_traced(device, device, device, "cosine", normalise="sum")
    rounded = divide_by_sum(by_sum.scores.round(decimals=2), None)
    return Explanation(
        "New embeddings: each word becomes a mixture of the words in its sentence",
        (
            step(
                "“an apple and an orange”: how similar the words are.",
                COSINE,
                matrix("cos", by_sum.scores, FRUIT, FRUIT),
            ),
            step(
                "Weights, first way: divide each row by its sum.",
                DIVIDE_BY_SUM,
                matrix("by the sum", by_sum.weights, FRUIT, FRUIT),
            ),
            step(
                "The same with cosines rounded to two decimals, as on the slides.",
                matrix("rounded first", rounded, FRUIT, FRUIT),
            ),
            _mixture_step(by_sum.output, FRUIT, "new, by the sum"),
            step("“an apple phone” in the same way.", DIVIDE_BY_SUM, matrix("phone", phone.weights, DEVICE, DEVICE)),
            _mixture_step(phone.output, DEVICE, "new, phone"),
            step("Weights, second way: softmax.", SOFTMAX, matrix("by softmax", by_softmax.weights, FRUIT, FRUIT)),
            _mixture_step(by_softmax.output, FRUIT, "new, by softmax"),
        ),
        f"Orange becomes {_format_mixture(by_sum, 0, 3)} by the sum, and {_format_mixture(by_softmax, 0, 2)} by "
        "softmax, which gives every word some weight. Both are the same attention with a different normalisation.",
        _slide_corrections(rounded, by_sum, by_softmax),
    )


def _slide_corrections(rounded: Tensor, by_sum: AttentionTrace, by_softmax: AttentionTrace) -> tuple[str, ...]:
    """Notes on numbers that are wrong on the slides"""
    slide = " and ".join(map(str, _SLIDE_BY_SUM))
    with_rounding, exact = (
        " and ".join(f"{w:.3f}" for w in row[:2].tolist()) for row in (rounded[0], by_sum.weights[0])
    )
    correct = ", ".join(f"{w:.2f}" for w in by_softmax.weights[FRUIT.index("And")].tolist())
    return (
        f"By the sum, a slide shows {slide} for Orange; the correct weights are {with_rounding} with cosines rounded "
        f"to two decimals, and {exact} without rounding.",
        f"By softmax, a slide shows {', '.join(map(str, _SLIDE_BY_SOFTMAX))} for And, which add up to "
        f"{format_number(sum(_SLIDE_BY_SOFTMAX))} instead of 1; the correct weights are {correct}.",
        "A slide writes softmax(XXᵀ)X for X with words as columns; with columns the similarities are XᵀX, and the new "
        "vectors are X softmax(XᵀX), softmax per column. With words as rows, as here, XXᵀ is right.",
    )


def explain_mixing_on_model(model_input: ModelInput) -> Explanation:
    tokens, x = model_input.input_labels, model_input.embeddings
    trace, similarities = attend_traced(x, x, x, "cosine"), Cosine()(x, x)
    return Explanation(
        f"A new embedding for each token: {model_input.short_text}",
        (
            step("How similar the embeddings of the tokens are.", COSINE, matrix("cos", similarities, tokens, tokens)),
            step("Softmax gives the weights.", SOFTMAX, matrix("by softmax", trace.weights, tokens, tokens)),
            _mixture_step(trace.output, tokens, "new"),
            step(
                "These steps, compared with the library's attention function.",
                max_difference(trace.output, softmax(similarities, None) @ x),
            ),
        ),
        "Each token is now a mixture of all tokens, with slightly more of those that are similar to it.",
        ("Cosines of learned vectors can be negative, so dividing by the sum would not give weights; softmax does.",),
    )


def _mixture_step(values: Tensor, words: tuple[str, ...], name: str) -> Step:
    return step(
        "The new vectors are weighted sums of the old ones.",
        _MIXTURE,
        matrix(name, values, words, column_numbers(values)),
    )


def _format_mixture(trace: AttentionTrace, row: int, decimals: int) -> str:
    """`0.586 Orange + 0.414 Apple`"""
    shares = zip(trace.weights[row].tolist(), FRUIT, strict=True)
    return " + ".join(f"{share:.{decimals}f} {word}" for share, word in shares if share)
