"""Self-attention does not know the order of its words: W9 and P3."""

from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, Step, difference, listing, matrix, numbered, step
from regard.explain.formula import brackets, math, of, power
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.models.stack import StackDecoder, StackEncoder
from regard.nn.attention import AttentionTrace, SelfAttention, attend_traced
from regard.nn.feedforward import make_feed_forward
from regard.nn.masks import causal_mask

_WORDS, _ORDER = ("I", "love", "you"), (2, 1, 0)
_MOVED = tuple(_WORDS[i] for i in _ORDER)
_BACK = power("P", "T")


def equivariance() -> Explanation:
    generator = torch.Generator().manual_seed(1)
    x, wq, wk, wv = (torch.randn(3, 3, generator=generator).double() for _ in range(4))
    p = torch.eye(3, dtype=torch.float64)[list(_ORDER)]
    before, after = (attend_traced(m @ wq, m @ wk, m @ wv) for m in (x, p @ x))
    hidden, hidden_after = (attend_traced(m @ wq, m @ wk, m @ wv, mask=causal_mask(3, 3)).output for m in (x, p @ x))
    given = (matrix("X", x, _WORDS, numbered(x)), matrix("P", p), matrix("P X", p @ x, _MOVED, numbered(x)))
    return Explanation(
        "Permuted words give permuted outputs: A(PX) = P A(X)",
        (
            step(
                "Three words, and a matrix P that puts the last first. X and each W are drawn at random.", None, *given
            ),
            *_proof(before, after, p),
            step(
                "The feed-forward layer works on each word alone, so the same holds for it.",
                math(of("F", "P X"), "= P", of("F", "X")),
                difference(*_fed_forward(x, p)),
            ),
            step(
                "A causal mask breaks it: what stands behind is not seen, and the order matters.",
                None,
                difference(hidden_after, p @ hidden, "largest difference with a mask"),
            ),
        ),
        f"A(PX) = P A(X) up to rounding ({_gap(after.output, p @ before.output)}); with a mask they differ by "
        f"{_gap(hidden_after, p @ hidden)}. Without positions “I love you” and “you love I” are one bag of words.",
    )


def _proof(before: AttentionTrace, after: AttentionTrace, p: Tensor) -> list[Step]:
    """Each line of the proof: what the permuted words give, and how far it is from the permuted result"""
    places = numbered(after.q)
    return [
        step(
            "Queries, keys and values are made word by word, and move along.",
            math(brackets("P X"), "W = P", brackets("X W")),
            matrix("Q of P X", after.q, _MOVED, places),
            difference(after.q, p @ before.q),
        ),
        step(
            "Of the scores, rows and columns move.",
            math("P Q", power(brackets("P K"), "T"), "= P", brackets("Q", power("K", "T")), _BACK),
            matrix("scores of P X", after.scores, _MOVED, _MOVED),
            difference(after.scores, p @ before.scores @ p.T),
        ),
        step(
            "Softmax goes row by row, and moves along.",
            math(of("softmax", math("P E", _BACK)), "= P", of("softmax", "E"), _BACK),
            matrix("weights of P X", after.weights, _MOVED, _MOVED),
            difference(after.weights, p @ before.weights @ p.T),
        ),
        step(
            "P turned over times P is the identity: only the P in front is left.",
            math("P A", _BACK, "P V = P A V"),
            matrix("A(P X)", after.output, _MOVED, places),
            matrix("P A(X)", p @ before.output, _MOVED, places),
            difference(after.output, p @ before.output),
        ),
    ]


@torch.no_grad()
def equivariance_of_own(own: ModelInput) -> Explanation:
    embedding, mixer = _first_attention(own)
    n = len(own.input_ids)
    order = [n - 1, *range(n - 1)]
    x, ids = (own.vectors * embedding.scale).float()[None], torch.tensor([own.input_ids])
    plain, plain_after = (_bare(mixer, each) for each in (x, x[:, order]))
    real, real_after = (mixer(embedding(each))[0] for each in (ids, ids[:, order]))
    tokens = unique_labels(own.input_labels)
    moved = tuple(tokens[i] for i in order)
    return Explanation(
        f"The model's first self-attention, given the last token first: {own.quoted_text}",
        (
            step(
                "The order of the tokens.", None, listing("order", ("X", "P X"), list(zip(tokens, moved, strict=True)))
            ),
            step(
                "Without positions and mask: the output of the permuted tokens, and the permuted output.",
                math(of("A", "P X"), "= P", of("A", "X")),
                matrix("A(P X)", plain_after[0], moved),
                matrix("P A(X)", plain[0, order], moved),
                difference(plain_after, plain[:, order]),
            ),
            step(
                "As the model runs it, with all that it knows of places.",
                None,
                difference(real_after, real[:, order], "largest difference as the model runs"),
            ),
        ),
        f"Without positions the two differ by {_gap(plain_after, plain[:, order])}, which is rounding; as the model "
        f"runs, by {_gap(real_after, real[:, order])}.",
    )


def _first_attention(own: ModelInput) -> tuple[Any, SelfAttention]:
    part = own.text_reader
    if isinstance(part, StackEncoder | StackDecoder):
        mixer = part.layers[0].mixer
        if isinstance(mixer, SelfAttention):
            return part.embedding, mixer
    raise UserError("this model has no self-attention to permute the words of")


def _bare(mixer: SelfAttention, x: Tensor) -> Tensor:
    """Its queries, keys and values as they are: no mask, and nothing of places"""
    return mixer.attend_heads(mixer.queries(x), mixer.keys_values(x), None, False, True)[0]


@torch.no_grad()
def _fed_forward(x: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layer = make_feed_forward(3, 6, "relu", True).double()
    return layer(p @ x), p @ layer(x)


def _gap(left: Tensor, right: Tensor) -> str:
    return number(float((left - right).abs().max()))
