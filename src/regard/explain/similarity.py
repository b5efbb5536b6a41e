"""How alike two vectors are: W1 and W2."""

import torch
from torch import Tensor

from regard.explain.explanation import Explanation, matrix, numbered, step
from regard.explain.formula import frac, math, of, root, sub, total
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.nn.scores import Cosine, Dot

WORDS = {"Orange": (0, 3, 0), "Phone": (4, 0, 0), "Apple": (2, 2, 0), "And": (0, 0, 2), "An": (0, 0, 3)}
FRUIT = ("Orange", "Apple", "And", "An")  # "an apple and an orange"
DEVICE = ("An", "Apple", "Phone")  # "an apple phone"

_DOT = math("a · b =", total("i", sub("a", "i"), sub("b", "i")))
COSINE = math(of("cos", "a", "b"), "=", frac("a · b", "‖a‖ ‖b‖"))


def dot() -> Explanation:
    a, b = (torch.tensor([given], dtype=torch.float64) for given in ((1, 3, 2), (4, 1, 1)))
    result = Dot()(a, b)
    return Explanation(
        "The dot product",
        (
            step("Two vectors of one length.", None, matrix("a", a), matrix("b", b)),
            step("Multiply them place by place.", math(sub("a", "i"), sub("b", "i")), matrix("products", a * b)),
            step("Add the products up.", _DOT, matrix("a · b", result)),
        ),
        f"a · b = {number(float(result))}. It is the larger, the more two vectors point the same way and the longer "
        "they are.",
    )


def dot_of_own(own: ModelInput) -> Explanation:
    tokens, x = unique_labels(own.input_labels), own.vectors
    products = Dot()(x, x)
    return Explanation(
        f"The dot products of the model's embeddings: {own.quoted_text}",
        (
            step("The model has learnt a vector a token.", None, matrix("embeddings", x, tokens, numbered(x))),
            step("Each with each.", _DOT, matrix("a · b", products, tokens, tokens)),
        ),
        f"{_closest(products, tokens)} On the diagonal stand the squared lengths.",
    )


def cosine() -> Explanation:
    words, x = tuple(WORDS), vectors(*WORDS)
    similarities = Cosine()(x, x)
    orange, phone = (number(float(similarities[words.index("Apple"), words.index(w)])) for w in ("Orange", "Phone"))
    return Explanation(
        "Cosine similarity",
        (
            step("Each word is a vector.", None, matrix("words", x, words, numbered(x))),
            step("Their lengths.", math("‖a‖ =", root("a · a")), matrix("‖a‖", x.norm(dim=1), (), words)),
            step("The dot product of each with each.", _DOT, matrix("a · b", Dot()(x, x), words, words)),
            step("Divided by both lengths.", COSINE, matrix("cos", similarities, words, words)),
        ),
        f"Apple is as near to Orange ({orange}) as to Phone ({phone}): the word alone does not say which it is. "
        "And and An point the same way; their lengths do not count.",
    )


def cosine_of_own(own: ModelInput) -> Explanation:
    tokens, x = unique_labels(own.input_labels), own.vectors
    similarities = Cosine()(x, x)
    return Explanation(
        f"Cosine similarity of the model's embeddings: {own.quoted_text}",
        (
            step("The model has learnt a vector a token.", None, matrix("embeddings", x, tokens, numbered(x))),
            step("Dot products divided by both lengths.", COSINE, matrix("cos", similarities, tokens, tokens)),
        ),
        _closest(similarities, tokens),
    )


def vectors(*words: str) -> Tensor:
    return torch.tensor([WORDS[word] for word in words], dtype=torch.float64)


def _closest(scores: Tensor, tokens: tuple[str, ...]) -> str:
    if len(tokens) < 2:
        return "There is one token, and nothing to compare it with."
    i, j = divmod(int(scores.clone().fill_diagonal_(-torch.inf).argmax()), len(tokens))
    return f"{tokens[i]} and {tokens[j]} are most alike: {number(float(scores[i, j]))}."
