"""Self-attention does not know the order of its words: permuted words give permuted outputs (W9, W13, P3)."""

from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, Step, column_numbers, matrix, max_difference, step, table
from regard.explain.formula import apply, brackets, expr, power
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.explain.printed_equivariance import printed_steps
from regard.models.stack import StackDecoder, StackEncoder
from regard.nn.attention import AttentionTrace, SelfAttention, attend_traced
from regard.nn.feedforward import make_feed_forward
from regard.nn.masks import causal_mask

_WORDS, _ORDER = ("I", "love", "you"), (2, 1, 0)
_PERMUTED = tuple(_WORDS[i] for i in _ORDER)
_P_TRANSPOSED = power("P", "T")


def explain_equivariance() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    x, wq, wk, wv = (torch.randn(3, 3, generator=generator).double() for _ in range(4))
    p = torch.eye(3, dtype=torch.float64)[list(_ORDER)]
    original, permuted = (attend_traced(m @ wq, m @ wk, m @ wv) for m in (x, p @ x))
    masked, masked_permuted = (attend_traced(m @ wq, m @ wk, m @ wv, mask=causal_mask(3, 3)).output for m in (x, p @ x))
    numbers = column_numbers(x)
    return Explanation(
        "Permuted words give permuted outputs: A(PX) = P A(X)",
        (
            step(
                "Three words, and a matrix P that reverses their order. X and the matrices W are drawn at random.",
                matrix("X", x, _WORDS, numbers),
                matrix("P", p),
                matrix("P X", p @ x, _PERMUTED, numbers),
            ),
            *_proof_steps(original, permuted, p),
            step(
                "The feed-forward layer processes each word separately, so the same holds for it.",
                expr(apply("F", "P X"), "= P", apply("F", "X")),
                max_difference(*_feed_forward_outputs(x, p)),
            ),
            step(
                "A causal mask breaks the rule: later words are hidden, so the order matters.",
                max_difference(masked_permuted, p @ masked, "largest difference with a mask"),
            ),
            *printed_steps(),
        ),
        f"A(PX) = P A(X) up to rounding ({_format_difference(permuted.output, p @ original.output)}); with a mask they "
        f"differ by {_format_difference(masked_permuted, p @ masked)}. Without positions “I love you” and “you love I” "
        "are the same bag of words.",
    )


def _proof_steps(original: AttentionTrace, permuted: AttentionTrace, p: Tensor) -> list[Step]:
    """Each line of the proof: the result for permuted words, and how far it is from the permuted result."""
    numbers = column_numbers(permuted.q)
    return [
        step(
            "Queries, keys and values are computed word by word, so they are permuted in the same way.",
            expr(brackets("P X"), "W = P", brackets("X W")),
            matrix("Q of P X", permuted.q, _PERMUTED, numbers),
            max_difference(permuted.q, p @ original.q),
        ),
        step(
            "Of the scores, both the rows and the columns are permuted.",
            expr("P Q", power(brackets("P K"), "T"), "= P", brackets("Q", power("K", "T")), _P_TRANSPOSED),
            matrix("scores of P X", permuted.scores, _PERMUTED, _PERMUTED),
            max_difference(permuted.scores, p @ original.scores @ p.T),
        ),
        step(
            "Softmax is computed row by row, so the weights are permuted like the scores.",
            expr(apply("softmax", expr("P E", _P_TRANSPOSED)), "= P", apply("softmax", "E"), _P_TRANSPOSED),
            matrix("weights of P X", permuted.weights, _PERMUTED, _PERMUTED),
            max_difference(permuted.weights, p @ original.weights @ p.T),
        ),
        step(
            "Pᵀ P is the identity, so only the P in front is left.",
            expr("P A", _P_TRANSPOSED, "P V = P A V"),
            matrix("A(P X)", permuted.output, _PERMUTED, numbers),
            matrix("P A(X)", p @ original.output, _PERMUTED, numbers),
            max_difference(permuted.output, p @ original.output),
        ),
    ]


@torch.no_grad()
def explain_equivariance_on_model(model_input: ModelInput) -> Explanation:
    embedding, attention = _first_self_attention(model_input)
    n = len(model_input.input_ids)
    order = [n - 1, *range(n - 1)]
    x, ids = (model_input.embeddings * embedding.scale).float()[None], torch.tensor([model_input.input_ids])
    plain, plain_permuted = (_attend_without_positions(attention, each) for each in (x, x[:, order]))
    real, real_permuted = (attention(embedding(each))[0] for each in (ids, ids[:, order]))
    tokens = model_input.input_labels
    permuted = tuple(tokens[i] for i in order)
    return Explanation(
        f"The model's first self-attention with the last token moved to the front: {model_input.short_text}",
        (
            step("The order of the tokens.", table("order", ("X", "P X"), list(zip(tokens, permuted, strict=True)))),
            step(
                "Without positions and mask: the output for the permuted tokens, and the permuted output.",
                expr(apply("A", "P X"), "= P", apply("A", "X")),
                matrix("A(P X)", plain_permuted[0], permuted),
                matrix("P A(X)", plain[0, order], permuted),
                max_difference(plain_permuted, plain[:, order]),
            ),
            step(
                "As the model runs, with everything that tells it the order.",
                max_difference(real_permuted, real[:, order], "largest difference as the model runs"),
            ),
        ),
        f"Without positions the two differ by {_format_difference(plain_permuted, plain[:, order])}, which is "
        f"rounding; as the model runs, they differ by {_format_difference(real_permuted, real[:, order])}.",
    )


def _first_self_attention(model_input: ModelInput) -> tuple[Any, SelfAttention]:
    """Return the embedding and the first self-attention of the part that reads the text."""
    part = model_input.text_reader
    if isinstance(part, StackEncoder | StackDecoder):
        mixer = part.layers[0].mixer
        if isinstance(mixer, SelfAttention) and mixer.score_name == "location":
            raise UserError("the location score depends on positions itself, so permuted tokens give other outputs")
        if isinstance(mixer, SelfAttention):
            return part.embedding, mixer
    raise UserError("this model has no self-attention over its input, so there is no permutation to show")


def _attend_without_positions(attention: SelfAttention, x: Tensor) -> Tensor:
    """Attend with neither mask nor positions."""
    return attention.attend_heads(attention.queries(x), attention.keys_values(x), None, False, True)[0]


@torch.no_grad()
def _feed_forward_outputs(x: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Return F(P X) and P F(X) for a feed-forward layer with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layer = make_feed_forward(3, 6, "relu", True).double()
    return layer(p @ x), p @ layer(x)


def _format_difference(left: Tensor, right: Tensor) -> str:
    return format_number(float((left - right).abs().max()))
