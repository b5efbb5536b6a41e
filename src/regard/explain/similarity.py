"""How similar two vectors are: the dot product (W1) and the cosine (W2)."""

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, column_numbers, matrix, step
from regard.explain.formula import apply, expr, frac, sqrt, sub, sum_over
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.nn.scores import Cosine, Dot

WORDS = {"Orange": (0, 3, 0), "Phone": (4, 0, 0), "Apple": (2, 2, 0), "And": (0, 0, 2), "An": (0, 0, 3)}
FRUIT = ("Orange", "Apple", "And", "An")  # "an apple and an orange"
DEVICE = ("An", "Apple", "Phone")  # "an apple phone"

_DOT = expr("a · b =", sum_over("i", sub("a", "i"), sub("b", "i")))
COSINE = expr(apply("cos", "a", "b"), "=", frac("a · b", "‖a‖ ‖b‖"))


def explain_dot() -> Explanation:
    a, b = (torch.tensor([vector], dtype=torch.float64) for vector in ((1, 3, 2), (4, 1, 1)))
    product = Dot()(a, b)
    return Explanation(
        "The dot product",
        (
            step("Two vectors of the same length.", matrix("a", a), matrix("b", b)),
            step(
                "Multiply them component by component.", expr(sub("a", "i"), sub("b", "i")), matrix("products", a * b)
            ),
            step("Add up the products.", _DOT, matrix("a · b", product)),
        ),
        f"a · b = {format_number(float(product))}. The dot product is larger the more the two vectors point in the "
        "same direction, and the longer they are.",
    )


def explain_dot_on_model(model_input: ModelInput) -> Explanation:
    tokens, x = model_input.input_labels, model_input.embeddings
    products = Dot()(x, x)
    return Explanation(
        f"Dot products of the model's embeddings: {model_input.short_text}",
        (
            step("The model has learned one vector per token.", matrix("embeddings", x, tokens, column_numbers(x))),
            step("The dot product of every pair.", _DOT, matrix("a · b", products, tokens, tokens)),
        ),
        f"{_most_similar(products, tokens)} The diagonal holds the squared lengths.",
    )


def explain_cosine() -> Explanation:
    words, x = tuple(WORDS), word_vectors(*WORDS)
    similarities = Cosine()(x, x)
    apple = similarities[words.index("Apple")]
    orange, phone = (format_number(float(apple[words.index(word)])) for word in ("Orange", "Phone"))
    return Explanation(
        "Cosine similarity",
        (
            step("Each word is a vector.", matrix("words", x, words, column_numbers(x))),
            step("The length of each vector.", expr("‖a‖ =", sqrt("a · a")), matrix("‖a‖", x.norm(dim=1), (), words)),
            step("The dot product of every pair.", _DOT, matrix("a · b", Dot()(x, x), words, words)),
            step("Divide by both lengths.", COSINE, matrix("cos", similarities, words, words)),
        ),
        f"Apple is as similar to Orange ({orange}) as to Phone ({phone}): the word alone does not tell which apple is "
        "meant. And and An point in the same direction, so their similarity is 1; the lengths do not matter.",
    )


def explain_cosine_on_model(model_input: ModelInput) -> Explanation:
    tokens, x = model_input.input_labels, model_input.embeddings
    similarities = Cosine()(x, x)
    return Explanation(
        f"Cosine similarity of the model's embeddings: {model_input.short_text}",
        (
            step("The model has learned one vector per token.", matrix("embeddings", x, tokens, column_numbers(x))),
            step("Dot products divided by both lengths.", COSINE, matrix("cos", similarities, tokens, tokens)),
        ),
        _most_similar(similarities, tokens),
    )


def word_vectors(*words: str) -> Tensor:
    """Return the lecture's vectors of these words [words, 3]."""
    return torch.tensor([WORDS[word] for word in words], dtype=torch.float64)


def _most_similar(scores: Tensor, tokens: tuple[str, ...]) -> str:
    if len(tokens) < 2:
        return "There is only one token, so there is nothing to compare it with."
    i, j = divmod(int(scores.clone().fill_diagonal_(-torch.inf).argmax()), len(tokens))
    return f"{tokens[i]} and {tokens[j]} are the most similar: {format_number(float(scores[i, j]))}."
